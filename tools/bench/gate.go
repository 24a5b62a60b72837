package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/caddy-tollgate/tollgate/internal/store/benchtest"
)

// keys is the number of accounts of each plan, with one key each.
const keys = 100

// Plans of the gates.
const (
	planAmple     = "ample"     // ampleLimit calls a day
	planFour      = "four"      // ampleLimit in four limits, as in the benchmarks of the gate
	planExhausted = "exhausted" // no calls
)

// ampleLimit is a limit that no run reaches.
const ampleLimit = 1_000_000_000_000

// gate is a Caddy with the gate.
type gate struct {
	*server
	ample     []string // tokens of accounts with calls left
	four      []string // the same, with four limits
	exhausted []string // tokens of accounts without calls left
}

// badger is the option of a store in a directory.
func badger(dir, options string) string { return fmt.Sprintf("store badger %q {\n%s\n}", dir, options) }

// secret is the secret of the gates.
const secret = "a secret of benchmarks that guards nothing"

// utc is the time zone of the gates.
const utc = "UTC"

// gateConfig is a gate in front of a handler.
func gateConfig(ctx context.Context, storeOption, zone, handler string) (caddyConfig, error) {
	control, err := freeAddresses(ctx, 1)
	return caddyConfig{
		options: fmt.Sprintf(`tollgate {
		%[1]s
		timezone %[7]s
		secret %[6]q
		guard /api/
		endpoint convert GET /api/convert/{from}/{amount}/{to}
		plan %[2]s {
			convert %[3]d
		}
		plan %[4]s {
			convert %[3]d
			convert %[3]d month
			* %[3]d month
			convert %[3]d second
		}
		plan %[5]s {
			convert 0
		}
	}`, storeOption, planAmple, ampleLimit, planFour, planExhausted, secret, zone),
		site: "tollgate\n\t" + handler,
		more: "http://:" + port(control[0]) + " {\n\tbind 127.0.0.1\n\ttollgate_control\n}\n",
	}, err
}

// proxyTo is the proxy of all sites, with further options.
func proxyTo(upstream string, options ...string) string {
	return fmt.Sprintf(`reverse_proxy %s {
		transport http {
			keepalive_idle_conns_per_host 256
		}%s
	}`, upstream, strings.Join(options, ""))
}

// startProxies starts two equal Caddys without a gate.
func (b *bench) startProxies(ctx context.Context, site string, status int) (baseline, baseline2 *server, err error) {
	config, ready := caddyConfig{site: site}, answers{status: status}
	if baseline, err = b.startCaddy(ctx, config, ready); err != nil {
		return nil, nil, err
	}
	baseline2, err = b.startCaddy(ctx, config, ready)
	return baseline, baseline2, err
}

// startGate starts a gate on a new badger store with accounts. A variable of
// its environment has the form NAME=value.
func (b *bench) startGate(ctx context.Context, storeOptions, handler string, variables ...string) (*gate, error) {
	dir, err := os.MkdirTemp(b.dir, "store-")
	if err != nil {
		return nil, err
	}
	db, err := benchtest.OpenBadger(dir)
	if err != nil {
		return nil, err
	}
	return b.startGateOn(ctx, db, badger(dir, storeOptions), handler, variables...)
}

// startGateOn creates accounts in an empty store, closes it, and starts a gate
// on it.
func (b *bench) startGateOn(ctx context.Context, db *benchtest.Store, storeOption, handler string, variables ...string) (*gate, error) {
	g := &gate{}
	if err := errors.Join(g.createAccounts(ctx, db), db.Close()); err != nil {
		return nil, fmt.Errorf("creating accounts: %w", err)
	}
	config, err := gateConfig(ctx, storeOption, utc, handler)
	if err != nil {
		return nil, err
	}
	config.variables = variables
	g.server, err = b.startCaddy(ctx, config, answers{token: g.ample[0], status: 200})
	return g, err
}

func (g *gate) createAccounts(ctx context.Context, db *benchtest.Store) error {
	for i := range keys {
		for plan, tokens := range map[string]*[]string{planAmple: &g.ample, planFour: &g.four, planExhausted: &g.exhausted} {
			token, err := createAccount(ctx, db, fmt.Sprintf("%s_%d", plan, i), plan)
			if err != nil {
				return err
			}
			*tokens = append(*tokens, token)
		}
	}
	return nil
}
