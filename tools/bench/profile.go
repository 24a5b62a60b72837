package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/google/pprof/profile"
)

// Packages in the names of functions.
const (
	project    = "github.com/caddy-tollgate/tollgate/"
	upstreams  = project + "upstream/"
	apiPackage = upstreams + "currency/api."
	apiErrors  = project + "internal/apierror."
)

// profileAPI loads a side while it profiles its Caddy, and returns the part of
// the processor samples in the upstream's API.
func (s *side) profileAPI(ctx context.Context, duration time.Duration) (float64, error) {
	loaded := make(chan error, 1)
	go func() {
		_, err := s.calls(ctx, duration+time.Second) // longer than the profile
		loaded <- err
	}()
	data, err := get(ctx, fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", s.admin, int(duration.Seconds())))
	if err := errors.Join(err, <-loaded); err != nil {
		return 0, fmt.Errorf("profiling: %w", err)
	}
	p, err := profile.ParseData(data)
	if err != nil {
		return 0, err
	}
	return partInAPI(p)
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

// partInAPI weighs samples by their number.
func partInAPI(p *profile.Profile) (float64, error) {
	var api, all int64
	for _, sample := range p.Sample {
		n := sample.Value[0]
		all += n
		if inAPI(sample) {
			api += n
		}
	}
	if all == 0 {
		return 0, errors.New("the profile has no samples")
	}
	return float64(api) / float64(all), nil
}

// inAPI tells whether a sample is the API's, and not the gate's. The gate works
// on the answer when the API writes it, so it is then below the API on the
// stack, which begins with the innermost function. Both use the package
// apierror.
func inAPI(sample *profile.Sample) bool {
	for _, location := range sample.Location {
		for _, line := range location.Line {
			if line.Function == nil {
				continue
			}
			switch name := line.Function.Name; {
			case strings.HasPrefix(name, apiPackage):
				return true
			case strings.HasPrefix(name, project) && !strings.HasPrefix(name, upstreams) && !strings.HasPrefix(name, apiErrors):
				return false
			}
		}
	}
	return false
}
