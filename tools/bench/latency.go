package main

import (
	"context"
	"net/http"
)

// blocks is the number of blocks of a round, on each side. Blocks are short, so
// that the speed of the machine is the same for all sides.
const blocks = 10

// measureLatency makes one call at a time. It compares the median of a
// block on one side with the medians of the blocks next to it in time on
// the other sides. The result of a round is the median of the differences.
// The gate is compared with a proxy that sets the same headers: headers
// have a cost without a gate, too. The rest is the cost of deciding and
// counting.
func measureLatency(ctx context.Context, b *bench) ([]row, error) {
	g, err := b.startGate(ctx, "sync off", proxyTo(b.upstream))
	if err != nil {
		return nil, err
	}
	pair, err := b.startPair(ctx, proxyTo(b.upstream), http.StatusOK, g.ample)
	if err != nil {
		return nil, err
	}
	withHeaders, err := b.startCaddy(ctx, "", proxyTo(b.upstream, gateHeaders), answers{status: http.StatusOK})
	if err != nil {
		return nil, err
	}
	var callers [4]*caller
	for i, c := range []*server{pair.first.server, pair.second.server, g.server, withHeaders} {
		if callers[i], err = connect(ctx, c.address, g.ample); err != nil {
			return nil, err
		}
		defer callers[i].Close()
		if _, err := callers[i].block(ctx); err != nil { // warming up
			return nil, err
		}
	}
	var added, noise, proxy, writes values
	for range b.rounds {
		write, err := b.writeTime()
		if err != nil {
			return nil, err
		}
		var medians [4]values
		for n := range blocks * len(callers) {
			at := (n + n/len(callers)) % len(callers)
			took, err := callers[at].block(ctx)
			if err != nil {
				return nil, err
			}
			medians[at] = append(medians[at], took.median())
		}
		first, second, gate, headers := medians[0], medians[1], medians[2], medians[3]
		added, noise = append(added, differences(gate, headers).median()), append(noise, differences(second, first).median())
		proxy, writes = append(proxy, first.median()), append(writes, write)
	}
	in, limit := inP(proxy), 0.08+2*ratios(writes, proxy).median()
	return []row{
		{what: "one connection: added median latency, beside the same headers, ≤ 0.08 P + 2 W", target: atMost(limit), unit: asMicros, in: in, measured: added, noise: noise},
		{what: "  median of the proxy alone (P)", unit: asMicros, measured: proxy},
		{what: "  one write of 64 bytes (W)", unit: asMicros, in: in, measured: writes},
	}, nil
}
