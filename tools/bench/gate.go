package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
)

// secret opens the control API of the gates, for as long as they run.
const secret = "a secret of benchmarks that guards nothing"

// keys is how many accounts with a key a gate knows of each plan.
const keys = 100

// Plans of the gates.
const (
	planOpen  = "open"  // openLimit calls
	planSpent = "spent" // every call is one too many
	planDaily = "daily" // dailyLimit calls
)

const (
	openLimit  = 1_000_000_000_000 // more than a run can make
	dailyLimit = 1000
)

// gate is a Caddy with the gate.
type gate struct {
	*caddy
	open  []string // tokens that are let through
	spent []string // tokens of accounts that used up their quota
}

// gateConfig is a gate in front of an upstream, with its store in a
// directory.
func gateConfig(name, store, storeOptions, upstream, control string) caddyConfig {
	_, port, _ := strings.Cut(control, ":")
	return caddyConfig{
		name: name,
		options: fmt.Sprintf(`tollgate {
		store badger %q {
			%s
		}
		timezone UTC
		secret %q
		guard /api/
		endpoint convert GET /api/convert/{from}/{amount}/{to}
		plan %s {
			convert %d
		}
		plan %s {
			convert 0
		}
		plan %s {
			convert %d
		}
	}`, store, storeOptions, secret, planOpen, openLimit, planSpent, planDaily, dailyLimit),
		site: "tollgate\n\t" + proxyTo(upstream),
		more: fmt.Sprintf("http://:%s {\n\tbind 127.0.0.1\n\ttollgate_control\n}\n", port),
	}
}

// proxyTo is the directive that all sites share, with further options.
func proxyTo(upstream string, options ...string) string {
	return fmt.Sprintf(`reverse_proxy %s {
		transport http {
			keepalive_idle_conns_per_host 256
		}%s
	}`, upstream, strings.Join(options, ""))
}

// startGate starts a gate with a new store and makes its accounts.
func startGate(ctx context.Context, s *settings, name, storeOptions, upstream string) (*gate, error) {
	control, err := freeAddresses(ctx, 1)
	if err != nil {
		return nil, err
	}
	store, err := os.MkdirTemp(s.dir, "store-")
	if err != nil {
		return nil, err
	}
	c, err := startCaddy(ctx, s, gateConfig(name, store, storeOptions, upstream, control[0]))
	if err != nil {
		return nil, fmt.Errorf("starting a gate: %w", err)
	}
	g := &gate{caddy: c}
	if err := g.populate(ctx, control[0]); err != nil {
		return nil, errors.Join(fmt.Errorf("making accounts: %w", err), c.stop())
	}
	return g, nil
}

func (g *gate) populate(ctx context.Context, address string) (err error) {
	control, err := client.New("http://"+address, secret)
	if err != nil {
		return err
	}
	if err := g.awaitControl(ctx, control); err != nil {
		return err
	}
	if g.open, err = makeKeys(ctx, control, planOpen); err != nil {
		return err
	}
	if g.spent, err = makeKeys(ctx, control, planSpent); err != nil {
		return err
	}
	if err := g.expect(ctx, g.open[0], http.StatusOK); err != nil {
		return err
	}
	return g.expect(ctx, g.spent[0], http.StatusTooManyRequests)
}

// awaitControl waits until the control listener answers, too: Caddy opens
// its listeners one after the other.
func (g *gate) awaitControl(ctx context.Context, control *client.Client) error {
	return g.until(ctx, func(ctx context.Context) error {
		_, err := control.Plans(ctx)
		return err
	})
}

// makeKeys makes accounts on a plan with a key each, and returns their
// tokens.
func makeKeys(ctx context.Context, control *client.Client, plan string) ([]string, error) {
	tokens := make([]string, keys)
	for i := range tokens {
		account := fmt.Sprintf("%s_%d", plan, i)
		if _, err := control.PutAccount(ctx, account, api.AccountChange{Plan: &plan}); err != nil {
			return nil, err
		}
		key, err := control.CreateKey(ctx, account, api.KeyRequest{Name: "bench"})
		if err != nil {
			return nil, err
		}
		tokens[i] = key.Token
	}
	return tokens, nil
}

// expect makes sure that a token meets with a certain answer.
func (g *gate) expect(ctx context.Context, token string, status int) error {
	response, err := g.call(ctx, token)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != status {
		return fmt.Errorf("the gate answers %s, not %d", response.Status, status)
	}
	return nil
}

// process is the Caddy of a gate that may never have been started.
func (g *gate) process() *caddy {
	if g == nil {
		return nil
	}
	return g.caddy
}
