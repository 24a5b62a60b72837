package main

import (
	"context"
	"fmt"
	"os"
	"time"
)

// measurePeers compares ways to serve the currency API with keys and limits: in
// one process, and behind proxies.
func measurePeers(ctx context.Context, b *bench) ([]row, error) {
	currency, err := b.startCurrency(ctx)
	if err != nil {
		return nil, err
	}
	g, err := b.startGate(ctx, "sync off", proxyTo(currency))
	if err != nil {
		return nil, err
	}
	n, err := b.startNginx(ctx, currency)
	if err != nil {
		return nil, err
	}
	var one [2]*side
	for i := range one {
		g, err := b.startOne(ctx, "")
		if err != nil {
			return nil, err
		}
		one[i] = g.with(g.ample)
	}
	pair, gate, nginx := baseline{one[0], one[1]}, g.with(g.ample), n.with(n.ample)
	// The currency API is in this process.
	gate.also, nginx.also = []int{os.Getpid()}, append(n.workers, os.Getpid(), n.redis.PID())
	if err := loadInTurn(ctx, b, pair, gate, nginx); err != nil {
		return nil, err
	}
	inAPI := make(values, b.repeats)
	for i := range inAPI {
		if inAPI[i], err = one[0].profileAPI(ctx, 5*time.Duration(b.seconds)*time.Second); err != nil {
			return nil, err
		}
	}
	return []row{
		pair.between("one process against gate and proxy, requests/s", atLeast(2.8), rate, one[0], gate),
		{what: "  processor samples in the upstream's API", target: atMost(0.15), unit: asPercent, measured: inAPI},
		pair.between("one process against nginx, Lua and Redis, requests/s", target{}, rate, one[0], nginx),
		pair.between("  processor time per request", atMost(0.5), cpu, one[0], nginx),
		pair.between("gate and proxy against nginx, Lua and Redis, requests/s", target{}, rate, gate, nginx),
		one[0].perSecond("one process"),
		gate.perSecond("gate and proxy"),
	}, nil
}

// startOne starts a gate and the upstream in one Caddy, with further directives.
func (b *bench) startOne(ctx context.Context, directives string) (*gate, error) {
	dir, err := os.MkdirTemp(b.dir, "upstream-")
	if err != nil {
		return nil, err
	}
	return b.startGate(ctx, "sync off", fmt.Sprintf(`tollgate_upstream {
		address %s
		data %q
		rates embedded
	}%s`, site, dir, directives))
}
