package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/caddy-tollgate/tollgate/caddymodule/token"
)

// measureRefusals compares the gate's refusals with the quickest that
// Caddy itself has, a fixed answer of the same status and body as the
// gate's 429.
func measureRefusals(ctx context.Context, s *settings) (rows []row, err error) {
	f := &fleet{}
	defer func() { err = errors.Join(err, f.stop()) }()
	if f.origin, err = startOrigin(ctx); err != nil {
		return nil, fmt.Errorf("starting the upstream: %w", err)
	}
	if f.gate, err = startGate(ctx, s, "gate", "sync off", f.origin.address); err != nil {
		return nil, err
	}
	body, err := refusalBody(ctx, f.gate)
	if err != nil {
		return nil, err
	}
	for name, c := range map[string]**caddy{"bare": &f.bare, "twin": &f.twin} {
		if *c, err = startCaddy(ctx, s, caddyConfig{name: name, site: "respond `" + body + "` 429"}); err != nil {
			return nil, err
		}
	}
	unknown, err := unknownTokens()
	if err != nil {
		return nil, err
	}
	lists := map[string][]string{"spent": f.gate.spent, "unknown": unknown, "malformed": malformedTokens(unknown)}
	generators := map[string]generator{}
	for name, tokens := range lists {
		if generators[name], err = newGenerator(s.dir, name, tokens, true); err != nil {
			return nil, err
		}
	}
	bare, twin := &side{caddy: f.bare, generator: generators["spent"]}, &side{caddy: f.twin, generator: generators["spent"]}
	refused := func(name string) *side { return &side{caddy: f.gate.caddy, generator: generators[name]} }
	spent, absent, malformed := refused("spent"), refused("unknown"), refused("malformed")
	if err := loadInTurn(ctx, s, bare, twin, spent, absent, malformed); err != nil {
		return nil, err
	}
	rate := func(s *side) samples { return s.rate }
	return []row{
		compared("429 against Caddy's respond, requests/s", atLeast(0.90), rate, bare, twin, spent),
		compared("  401, unknown tokens", atLeast(0.90), rate, bare, twin, absent),
		compared("  401, malformed tokens", atLeast(0.90), rate, bare, twin, malformed),
	}, nil
}

// refusalBody is what the gate says to an account that used up its quota.
func refusalBody(ctx context.Context, g *gate) (string, error) {
	response, err := g.call(ctx, g.spent[0])
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return "", err
	}
	if strings.Contains(string(body), "`") {
		return "", fmt.Errorf("the body %q cannot be quoted", body)
	}
	return strings.TrimSpace(string(body)), nil
}

// unknownTokens are well-formed and were never given to anybody.
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

// malformedTokens look like tokens and fail their checksum.
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
