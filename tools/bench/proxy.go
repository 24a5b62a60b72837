package main

import (
	"context"
	"net/http"
	"strings"
)

// assertionLength is the length of an assertion of this call, in bytes.
const assertionLength = 401

// gateHeaders are options of the proxy that change the headers as the gate
// does. Caddy looks for placeholders in them and the gate does not, so they
// cost a little more.
var gateHeaders = `
		header_up -Authorization
		header_up Tollgate-Account ample_42
		header_up Tollgate-Plan ample
		header_up Tollgate-Key key_0123456789ABCDEF
		header_up Tollgate-Abilities convert
		header_up Tollgate-Assertion ` + strings.Repeat("0", assertionLength) + `
		header_down Ratelimit-Policy "\"convert\";q=1000000000000;w=86400"
		header_down Ratelimit "\"convert\";r=999999999999;t=43200"
		header_down Cache-Control no-store
		header_down Vary Authorization`

// measureProxy compares the gate in front of a proxy with a proxy that sets the
// same headers. Headers have a cost without a gate, too: no handler that sets
// them is as fast as the proxy alone, which is measured beside.
func measureProxy(ctx context.Context, b *bench) ([]row, error) {
	g, err := b.startGate(ctx, "sync off", proxyTo(b.upstream))
	if err != nil {
		return nil, err
	}
	s, err := b.startGate(ctx, "sync on", proxyTo(b.upstream))
	if err != nil {
		return nil, err
	}
	// The proxies get the same requests as the gate, with the tokens.
	base, err := b.startPair(ctx, proxyTo(b.upstream, gateHeaders), http.StatusOK, g.ample)
	if err != nil {
		return nil, err
	}
	alone, err := b.startCaddy(ctx, "", proxyTo(b.upstream), answers{status: http.StatusOK})
	if err != nil {
		return nil, err
	}
	gate, synced, bare := g.with(g.ample), s.with(s.ample), alone.with(g.ample)
	// Another load generator makes the same requests.
	called, gateCalled := baseline{base.first.with(g.ample), base.second.with(g.ample)}, g.with(g.ample)
	called.first.inGo, called.second.inGo, gateCalled.inGo = true, true, true
	if err := loadInTurn(ctx, b, base, bare, gate, synced, called.first, called.second, gateCalled); err != nil {
		return nil, err
	}
	return []row{
		base.ratio("gate and proxy against a proxy that sets the same headers, requests/s", atLeast(0.97), rate, gate),
		base.ratio("  processor time per request", atMost(1.04), cpu, gate),
		base.ratio("  p99", atMost(1.05), p99, gate),
		called.ratio("  requests/s, by a client in Go in place of wrk", atLeast(0.97), rate, gateCalled),
		called.ratio("  processor time per request, by the same", atMost(1.04), cpu, gateCalled),
		base.between("gate and proxy against proxy alone, requests/s", target{}, rate, gate, bare),
		base.ratio("gate with sync on, and proxy, against the same headers, requests/s", atLeast(0.85), rate, synced),
		base.added("memory, resident, that the gate adds to the same headers, 100 keys", atMost(40<<20), gate),
	}, nil
}
