package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"text/tabwriter"
	"time"
)

// peers are the sides of measurePeers: the same call of the currency API.
// All but the one process share one upstream.
type peers struct {
	proxy       baseline // to the upstream, without a gate
	gate        *side    // on a badger store, and proxy
	gateOnRedis *side
	nginx       *side    // with Lua and Redis
	one         baseline // the gate and the upstream in one Caddy
}

// measurePeers compares ways to serve the currency API with keys and limits.
func measurePeers(ctx context.Context, b *bench) ([]row, error) {
	p, err := b.startPeers(ctx)
	if err != nil {
		return nil, err
	}
	if err := loadInTurn(ctx, b, p.proxy, p.gate, p.gateOnRedis, p.nginx, p.one.first, p.one.second); err != nil {
		return nil, err
	}
	profiles := make([]shares, b.repeats)
	for i := range profiles {
		if profiles[i], err = p.one.first.loadProfiled(ctx, 5*time.Duration(b.seconds)*time.Second); err != nil {
			return nil, err
		}
	}
	b.peers = &p
	if b.graphs != "" {
		if err := b.drawPeers(ctx, p); err != nil {
			return nil, fmt.Errorf("drawing graphs: %w", err)
		}
	}
	return append(peerRows(p), profileRows(profiles)...), nil
}

// startPeers starts all sides.
func (b *bench) startPeers(ctx context.Context) (p peers, err error) {
	currency, err := b.startCurrency(ctx)
	if err != nil {
		return p, err
	}
	proxy := proxyTo(currency.address)
	first, second, err := b.startProxies(ctx, proxy, http.StatusOK)
	if err != nil {
		return p, err
	}
	gate, err := b.startGate(ctx, "sync off", proxy)
	if err != nil {
		return p, err
	}
	r, socket, err := b.startRedisAtSocket(ctx) // as nginx has it
	if err != nil {
		return p, err
	}
	onRedis, err := b.startRedisGate(ctx, r, "unix://"+socket, proxy)
	if err != nil {
		return p, err
	}
	n, err := b.startNginx(ctx, currency.address)
	if err != nil {
		return p, err
	}
	if err := n.check(ctx); err != nil {
		return p, err
	}
	one, err := b.startOne(ctx)
	if err != nil {
		return p, err
	}
	another, err := b.startOne(ctx)
	if err != nil {
		return p, err
	}
	for _, s := range []struct {
		side   **side
		server *server
		tokens []string
		also   []int
	}{
		{&p.proxy.first, first, gate.ample, []int{currency.pid()}},
		{&p.proxy.second, second, gate.ample, []int{currency.pid()}},
		{&p.gate, gate.server, gate.ample, []int{currency.pid()}},
		{&p.gateOnRedis, onRedis.server, onRedis.ample, []int{currency.pid(), r.pid}},
		{&p.nginx, n.server, n.ample, []int{currency.pid(), n.redis.pid}},
		{&p.one.first, one.server, one.ample, nil},
		{&p.one.second, another.server, another.ample, nil},
	} {
		generator, err := newGenerator(b.dir, s.tokens, false)
		if err != nil {
			return p, err
		}
		*s.side = &side{server: s.server, generator: generator, also: s.also}
	}
	return p, nil
}

// startOne starts a gate and the upstream in one Caddy.
func (b *bench) startOne(ctx context.Context, variables ...string) (*gate, error) {
	dir, err := os.MkdirTemp(b.dir, "upstream-")
	if err != nil {
		return nil, err
	}
	return b.startGate(ctx, "sync off", fmt.Sprintf(`tollgate_upstream {
		address %s
		data %q
		rates embedded
	}`, site, dir), variables...)
}

func peerRows(p peers) []row {
	const perSecond = ", requests/s"
	return []row{
		p.proxy.ratio("currency API, against Caddy's proxy: gate and proxy"+perSecond, target{}, rate, p.gate),
		p.proxy.ratio("  gate and proxy, store redis"+perSecond, target{}, rate, p.gateOnRedis),
		p.proxy.ratio("  nginx, Lua and Redis"+perSecond, target{}, rate, p.nginx),
		p.proxy.ratio("  one process"+perSecond, target{}, rate, p.one.first),
		p.one.between("one process against gate and proxy"+perSecond, atLeast(2.8), rate, p.one.first, p.gate),
		p.one.between("  processor time per request", target{}, cpu, p.one.first, p.gate),
		p.one.between("one process against nginx, Lua and Redis"+perSecond, target{}, rate, p.one.first, p.nginx),
		p.one.between("  processor time per request", atMost(0.5), cpu, p.one.first, p.nginx),
		p.proxy.between("gate and proxy against nginx, Lua and Redis"+perSecond, target{}, rate, p.gate, p.nginx),
	}
}

func profileRows(profiles []shares) []row {
	return []row{
		{what: "one process: processor samples in the upstream's API", target: atMost(0.15), unit: asPercent,
			measured: valuesOf(profiles, func(s shares) float64 { return s.api })},
		{what: "  in the whole upstream", unit: asPercent, measured: valuesOf(profiles, func(s shares) float64 { return s.upstream })},
		{what: "  in the garbage collector", unit: asPercent, measured: valuesOf(profiles, func(s shares) float64 { return s.collector })},
	}
}

// peer is a server with its name in tables and graphs.
type peer struct {
	what string
	side *side
}

func (p peers) servers() []peer {
	return []peer{
		{"Caddy's proxy", p.proxy.first}, {"gate and proxy", p.gate}, {"gate and proxy, store redis", p.gateOnRedis},
		{"nginx, Lua and Redis", p.nginx}, {"one process", p.one.first},
	}
}

// write prints the figures of each side, as the median of the rounds.
func (p peers) write(output io.Writer) error {
	w := tabwriter.NewWriter(output, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "\ncurrency API\trequests/s\tp50\tp99\tprocessor time per request\tmemory")
	for _, line := range p.servers() {
		of := func(figure func(measured) float64) float64 { return valuesOf(line.side.rounds, figure).median() }
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", line.what, asCount(of(rate)), asMillis(of(p50)), asMillis(of(p99)),
			asMicros(of(cpu)), asMiB(of(resident)))
	}
	return w.Flush()
}
