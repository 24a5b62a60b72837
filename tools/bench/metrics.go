package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// readMetrics reads metrics without labels of a Caddy, in the order of names.
func readMetrics(ctx context.Context, admin string, names ...string) (values, error) {
	text, err := get(ctx, "http://"+admin+"/metrics")
	if err != nil {
		return nil, fmt.Errorf("reading metrics: %w", err)
	}
	return findMetrics(string(text), names...)
}

// get returns the body of an answer.
func get(ctx context.Context, url string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("got status %s", response.Status)
	}
	return io.ReadAll(response.Body)
}

func findMetrics(text string, names ...string) (values, error) {
	found := make(values, len(names))
	for i, name := range names {
		_, rest, ok := strings.Cut("\n"+text, "\n"+name+" ")
		if !ok {
			return nil, fmt.Errorf("missing metric %s", name)
		}
		value, _, _ := strings.Cut(rest, "\n")
		var err error
		if found[i], err = strconv.ParseFloat(value, 64); err != nil {
			return nil, fmt.Errorf("reading the metric %s: %w", name, err)
		}
	}
	return found, nil
}
