package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/caddy-tollgate/tollgate/internal/token"
)

// measureRefusals compares the gate's refusals with the fastest answer of
// Caddy itself: a fixed one, with the status, the headers and the body of the
// gate's 429.
func measureRefusals(ctx context.Context, b *bench) ([]row, error) {
	upstream, err := b.startUpstream(ctx)
	if err != nil {
		return nil, err
	}
	g, err := b.startGate(ctx, "sync off", proxyTo(upstream))
	if err != nil {
		return nil, err
	}
	site, err := refusalSite(ctx, g)
	if err != nil {
		return nil, err
	}
	first, second, err := b.startProxies(ctx, site, http.StatusTooManyRequests)
	if err != nil {
		return nil, err
	}
	unknown, err := unknownTokens()
	if err != nil {
		return nil, err
	}
	var gates [3]*side
	for i, tokens := range [][]string{g.exhausted, unknown, malformedTokens(unknown)} {
		generator, err := newGenerator(b.dir, tokens, true)
		if err != nil {
			return nil, err
		}
		gates[i] = &side{server: g.server, generator: generator}
	}
	base := baseline{&side{server: first, generator: gates[0].generator}, &side{server: second, generator: gates[0].generator}}
	if err := loadInTurn(ctx, b, base, gates[0], gates[1], gates[2]); err != nil {
		return nil, err
	}
	return []row{
		base.ratio("429 against a fixed answer with the same headers, requests/s", atLeast(0.95), rate, gates[0]),
		base.ratio("  401, unknown tokens", atLeast(1), rate, gates[1]),
		base.ratio("  401, malformed tokens", atLeast(1), rate, gates[2]),
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

// unknownTokens are well-formed and no gate created them.
func unknownTokens() ([]string, error) {
	list := make([]string, keys)
	for i := range list {
		t, err := token.New(token.Key, rand.Reader)
		if err != nil {
			return nil, err
		}
		list[i] = t.Reveal()
	}
	return list, nil
}

// malformedTokens have an invalid checksum.
func malformedTokens(tokens []string) []string {
	list := make([]string, len(tokens))
	for i, t := range tokens {
		last := "0"
		if strings.HasSuffix(t, last) {
			last = "1"
		}
		list[i] = t[:len(t)-1] + last
	}
	return list
}
