package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"

	"github.com/caddy-tollgate/tollgate/caddymodule/assertion"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/upstream/app"
	upstreamserver "github.com/caddy-tollgate/tollgate/upstream/server"
)

// serveCurrency is the first argument of the process that startCurrency
// starts. The further ones are its address and its data directory.
const serveCurrency = "serve-currency"

// site is the address of all sites. Assertions do not depend on the port.
const site = "http://127.0.0.1"

// startCurrency starts the currency API in a process of its own, which is
// this program.
func (b *bench) startCurrency(ctx context.Context) (*server, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	addresses, err := freeAddresses(ctx, 1)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(b.dir, "currency-")
	if err != nil {
		return nil, err
	}
	s := &server{name: "the currency API", address: addresses[0]}
	if err := b.start(ctx, s, dir, program, serveCurrency, s.address, dir); err != nil {
		return nil, err
	}
	return s, s.await(ctx, answers{status: http.StatusOK})
}

// runCurrency serves the currency API as bin/upstream does, and also to
// proxies without a gate: it checks an assertion only if there is one.
func runCurrency(ctx context.Context, address, directory string) (err error) {
	logger := slog.New(slog.NewTextHandler(os.Stderr, nil))
	control, err := client.New("http://127.0.0.1:1", secret) // only logins need one
	if err != nil {
		return err
	}
	check, err := app.CheckAssertions(secret, site, control, logger)
	if err != nil {
		return err
	}
	config, err := app.Settings{Address: site, Data: directory, Rates: "embedded"}.Parse()
	if err != nil {
		return err
	}
	currency, err := app.Open(ctx, config, control, logger)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, currency.Close()) }()
	handler, err := currency.Handler(config, func(r *http.Request, purpose string) error {
		if len(r.Header[assertion.Header]) == 0 {
			return nil
		}
		return check(r, purpose)
	})
	if err != nil {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	return upstreamserver.Serve(ctx, listener, handler, logger)
}
