package main

import "context"

// measureTake compares calls that programs take with those that pass through the gate
// and a proxy.
func measureTake(ctx context.Context, b *bench) ([]row, error) {
	g, err := b.startGate(ctx, "sync off", "tollgate_control /tollgate/*\n\t"+proxyTo(b.upstream))
	if err != nil {
		return nil, err
	}
	base := baseline{g.with(g.ample), g.with(g.ample)}
	plain, named := g.with(g.ample), g.with(g.ample)
	plain.takes, named.ids = true, true
	if err := loadInTurn(ctx, b, base, plain, named); err != nil {
		return nil, err
	}
	return []row{
		base.ratio("take against a call through gate and proxy, requests/s", target{}, rate, plain),
		base.ratio("  with an id", target{}, rate, named),
	}, nil
}
