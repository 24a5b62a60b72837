package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// measureRefusals compares the gate's refusals with the fastest answer of
// Caddy itself: a fixed one, with the status, the headers and the body of the
// gate's 429.
func measureRefusals(ctx context.Context, b *bench) ([]row, error) {
	g, err := b.startGate(ctx, "sync off", proxyTo(b.upstream))
	if err != nil {
		return nil, err
	}
	fixed, err := refusalSite(ctx, g)
	if err != nil {
		return nil, err
	}
	base, err := b.startPair(ctx, fixed, http.StatusTooManyRequests, g.exhausted)
	if err != nil {
		return nil, err
	}
	unknown := make([]string, keys)
	for i := range unknown {
		t, _, err := newKey()
		if err != nil {
			return nil, err
		}
		unknown[i] = t.Reveal()
	}
	exhausted, unauthorized := g.with(g.exhausted), g.with(unknown)
	for _, side := range []*side{base.first, base.second, exhausted, unauthorized} {
		side.refused = true
	}
	if err := loadInTurn(ctx, b, base, exhausted, unauthorized); err != nil {
		return nil, err
	}
	return []row{
		base.ratio("429 against a fixed answer with the same headers, requests/s", atLeast(0.95), rate, exhausted),
		base.ratio("  401, unknown tokens", atLeast(1), rate, unauthorized),
	}, nil
}

// refusalSite returns a site that answers with the gate's 429.
func refusalSite(ctx context.Context, g *gate) (string, error) {
	response, err := g.call(ctx, g.exhausted[0])
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return "", err
	}
	if response.StatusCode != http.StatusTooManyRequests || strings.Contains(string(body), "`") {
		return "", fmt.Errorf("got %s with the body %q, want status 429 and no backquote", response.Status, body)
	}
	var site strings.Builder
	for name, values := range response.Header {
		if name != "Date" && name != "Content-Length" && name != "Server" { // Caddy sets them
			fmt.Fprintf(&site, "header %s `%s`\n\t", name, values[0])
		}
	}
	fmt.Fprintf(&site, "respond `%s` 429", strings.TrimSpace(string(body)))
	return site.String(), nil
}
