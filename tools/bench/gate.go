package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/store/benchtest"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
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
const ampleLimit int64 = 1_000_000_000_000

// secret is the secret of the gates.
const secret = "a secret of benchmarks that guards nothing"

// takeSecret opens taking of calls.
const takeSecret = "another-secret-of-benchmarks-that-guards-nothing"

// utc is the time zone of the gates.
const utc = "UTC"

// startCaddy starts the built Caddy in a directory of its own, with global
// options and the directives of a site, and waits for the answer.
func (b *bench) startCaddy(ctx context.Context, options, site string, ready answers) (*server, error) {
	addresses, err := b.freeAddresses(2)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(b.dir, "caddy-")
	if err != nil {
		return nil, err
	}
	s := &server{name: "Caddy", address: addresses[0], admin: addresses[1]}
	config := fmt.Sprintf(`{
	admin %s
	auto_https off
	persist_config off
	grace_period 1s
	log {
		format tollgate
	}
	%s
}
http://%s {
	bind 127.0.0.1
	%s
}
`, s.admin, options, strings.Replace(s.address, "127.0.0.1", "", 1), site)
	file := filepath.Join(dir, "Caddyfile")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		return nil, err
	}
	return s, b.start(ctx, s, dir, ready, b.caddy, "run", "--config", file, "--adapter", "caddyfile")
}

// startPair starts two equal Caddys without a gate.
func (b *bench) startPair(ctx context.Context, site string, status int, tokens []string) (baseline, error) {
	first, err := b.startCaddy(ctx, "", site, answers{status: status})
	if err != nil {
		return baseline{}, err
	}
	second, err := b.startCaddy(ctx, "", site, answers{status: status})
	return baseline{first.with(tokens), second.with(tokens)}, err
}

// gate is a Caddy with the gate.
type gate struct {
	*server
	ample     []string // tokens of accounts with calls left
	four      []string // the same, with four limits
	exhausted []string // tokens of accounts without calls left
}

// badger is the option of a store in a directory.
func badger(dir, options string) string { return fmt.Sprintf("store badger %q {\n%s\n}", dir, options) }

// gateOptions are the global options of a gate on a store.
func gateOptions(store string) string {
	return fmt.Sprintf(`tollgate {
		%[1]s
		timezone %[7]s
		secret %[6]q
		take_secret %[8]s
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
	}`, store, planAmple, ampleLimit, planFour, planExhausted, secret, utc, takeSecret)
}

// proxyTo is the proxy of all sites, with further options.
func proxyTo(upstream string, options ...string) string {
	return fmt.Sprintf(`reverse_proxy %s {
		transport http {
			keepalive_idle_conns_per_host 256
		}%s
	}`, upstream, strings.Join(options, ""))
}

// startGate starts a gate on a new badger store with accounts, in front of a
// handler.
func (b *bench) startGate(ctx context.Context, storeOptions, handler string) (*gate, error) {
	dir, err := os.MkdirTemp(b.dir, "store-")
	if err != nil {
		return nil, err
	}
	db, err := benchtest.OpenBadger(dir)
	if err != nil {
		return nil, err
	}
	return b.startGateOn(ctx, db, badger(dir, storeOptions), handler)
}

// startGateOn creates accounts in an empty store, closes it, and starts a gate
// on it.
func (b *bench) startGateOn(ctx context.Context, db *benchtest.Store, storeOption, handler string) (*gate, error) {
	g := &gate{}
	if err := errors.Join(g.createAccounts(ctx, db), db.Close()); err != nil {
		return nil, fmt.Errorf("creating accounts: %w", err)
	}
	var err error
	g.server, err = b.startOn(ctx, storeOption, handler, answers{token: g.ample[0], status: http.StatusOK})
	return g, err
}

// startOn starts a gate on a store, in front of a handler.
func (b *bench) startOn(ctx context.Context, storeOption, handler string, ready answers) (*server, error) {
	return b.startCaddy(ctx, gateOptions(storeOption), "tollgate\n\t"+handler, ready)
}

func (g *gate) createAccounts(ctx context.Context, db *benchtest.Store) error {
	for i := range keys {
		for plan, tokens := range map[string]*[]string{planAmple: &g.ample, planFour: &g.four, planExhausted: &g.exhausted} {
			made, token, err := newAccount(fmt.Sprintf("%s_%d", plan, i), plan)
			if err != nil {
				return err
			}
			if err := db.ChangeOne(ctx, time.Now(), made.ID, func(a *book.Account) error { *a = *made; return nil }); err != nil {
				return err
			}
			*tokens = append(*tokens, token)
		}
	}
	return nil
}
