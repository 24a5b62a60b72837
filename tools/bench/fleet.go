package main

import (
	"context"
	"errors"
	"fmt"
)

// fleet is what is compared: the same proxy to the same upstream, alone,
// once more, and behind a gate.
type fleet struct {
	origin     *origin
	bare, twin *caddy
	gate       *gate
	synced     *gate // a gate that waits for the disk; nil if not asked for
}

func startFleet(ctx context.Context, s *settings, synced bool) (*fleet, error) {
	f := &fleet{}
	if err := f.start(ctx, s, synced); err != nil {
		return nil, errors.Join(err, f.stop())
	}
	return f, nil
}

func (f *fleet) start(ctx context.Context, s *settings, synced bool) (err error) {
	if f.origin, err = startOrigin(ctx); err != nil {
		return fmt.Errorf("starting the upstream: %w", err)
	}
	for name, c := range map[string]**caddy{"bare": &f.bare, "twin": &f.twin} {
		if *c, err = startCaddy(ctx, s, caddyConfig{name: name, site: proxyTo(f.origin.address)}); err != nil {
			return fmt.Errorf("starting a proxy: %w", err)
		}
	}
	if f.gate, err = startGate(ctx, s, "gate", "sync off", f.origin.address); err != nil {
		return err
	}
	if synced {
		f.synced, err = startGate(ctx, s, "synced", "sync on", f.origin.address)
	}
	return err
}

// stop stops what was started.
func (f *fleet) stop() (err error) {
	for _, c := range []*caddy{f.bare, f.twin, f.gate.process(), f.synced.process()} {
		if c != nil {
			err = errors.Join(err, c.stop())
		}
	}
	if f.origin != nil {
		err = errors.Join(err, f.origin.stop())
	}
	return err
}
