package main

import (
	"context"
	"os"
	"path/filepath"
)

// measureLog compares gates with and without the access log of the shipped
// Caddyfile.
func measureLog(ctx context.Context, b *bench) ([]row, error) {
	log, err := b.shippedLog()
	if err != nil {
		return nil, err
	}
	var sides []*side
	for _, directives := range []string{"", "", log} {
		g, err := b.startOne(ctx, directives)
		if err != nil {
			return nil, err
		}
		sides = append(sides, g.with(g.ample))
	}
	for _, directives := range []string{"", log} {
		g, err := b.startGate(ctx, "sync off", proxyTo(b.upstream)+directives)
		if err != nil {
			return nil, err
		}
		sides = append(sides, g.with(g.ample))
	}
	one, proxied := baseline{sides[0], sides[1]}, sides[3]
	if err := loadInTurn(ctx, b, one, sides[2:]...); err != nil {
		return nil, err
	}
	return []row{
		one.ratio("one process with the shipped access log against without, requests/s", atLeast(0.93), rate, sides[2]),
		one.ratio("  processor time per request", target{}, cpu, sides[2]),
		one.between("gate and proxy with the shipped access log against without, requests/s", atLeast(0.93), rate, sides[4], proxied),
		one.between("  processor time per request", target{}, cpu, sides[4], proxied),
	}, nil
}

// shippedLog returns the directives of the access log.
func (b *bench) shippedLog() (string, error) {
	text, err := os.ReadFile(filepath.Join(filepath.Dir(b.caddy), "..", "log.caddyfile"))
	return "\n" + string(text), err
}
