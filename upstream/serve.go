package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/caddy-tollgate/tollgate/caddymodule/assertion"
	"github.com/caddy-tollgate/tollgate/upstream/account"
	"github.com/caddy-tollgate/tollgate/upstream/account/database"
	"github.com/caddy-tollgate/tollgate/upstream/api"
	"github.com/caddy-tollgate/tollgate/upstream/rates/ecb"
	"github.com/caddy-tollgate/tollgate/upstream/server"
	"github.com/caddy-tollgate/tollgate/upstream/web"
)

// endLoginsEvery is how often the server looks for login tokens that the
// gate did not end when a password was changed: a query that finds no row.
const endLoginsEvery = 2 * time.Second

func serveCommand() *cobra.Command {
	var s settings
	c := &cobra.Command{
		Use:   "serve",
		Short: "Serve the currency API and the web pages to the gate",
		Long: `Serve the currency API and the web pages to the gate, until SIGINT or
SIGTERM.

It may start before the gate does: the gate is asked when somebody logs in
or opens a page.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return s.serve(c) },
	}
	s.withGate(c)
	s.withRates(c)
	fromEnvironment(c, &s.listen, "upstream", "TOLLGATE_UPSTREAM", "127.0.0.1:9000", "`address` to listen at")
	fromEnvironment(c, &s.address, "address", "TOLLGATE_ADDRESS", "http://localhost:8080", "public `URL` of the site; with https, sessions are kept to TLS")
	fromEnvironment(c, &s.timezone, "timezone", "TOLLGATE_TIMEZONE", "UTC", "IANA `zone` whose midnight resets the quotas")
	c.Flags().BoolVar(&s.signUp, "signup", false, "let strangers make an account, on the plan free")
	return c
}

func (s *settings) serve(c *cobra.Command) (err error) {
	if _, err := time.LoadLocation(s.timezone); err != nil || s.timezone == "Local" {
		return misuse("--timezone %q is not the name of a zone", s.timezone)
	}
	site, err := publicURL(s.address)
	if err != nil {
		return err
	}
	secret, err := s.secret()
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(c.Context(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	logger := newLogger(c)
	store, err := s.open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	provider, err := s.rates(logger)
	if err != nil {
		return err
	}
	accounts, err := s.accounts(store, secret, logger)
	if err != nil {
		return err
	}
	verifier, err := s.verifier(secret)
	if err != nil {
		return err
	}
	handler, err := s.handler(store, accounts, provider, site, secret, verifier, logger)
	if err != nil {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", s.listen)
	if err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	logger.Info("listening", "address", listener.Addr().String())
	// A second signal ends the process at once.
	context.AfterFunc(ctx, stop)
	work, ctx := errgroup.WithContext(ctx)
	work.Go(func() error { return provider.Run(ctx) })
	work.Go(func() error { return accounts.Run(ctx, endLoginsEvery) })
	work.Go(func() error { return server.Serve(ctx, listener, handler, logger) })
	err = work.Wait()
	logger.Info("stopped")
	return err
}

// verifier checks the gate's assertions for the hosts of the site.
func (s *settings) verifier(secret string) (*assertion.Verifier, error) {
	accepts, err := siteHosts(s.address)
	if err != nil {
		return nil, err
	}
	key, err := assertion.NewKey(secret)
	if err != nil {
		return nil, err
	}
	return assertion.NewVerifier(accepts, time.Now, key), nil
}

// handler puts the upstream together.
func (s *settings) handler(
	store *database.Store, accounts *account.Service, provider *ecb.Provider, site *url.URL, secret string, verifier *assertion.Verifier, logger *slog.Logger,
) (http.Handler, error) {
	currencies, err := api.New(provider, site, time.Now)
	if err != nil {
		return nil, fmt.Errorf("preparing API: %w", err)
	}
	pages, err := s.pages(store, accounts, site, secret, logger)
	if err != nil {
		return nil, fmt.Errorf("preparing pages: %w", err)
	}
	return server.New(server.Config{
		Assertions: verifier,
		API:        currencies,
		Logins:     accounts,
		Database:   store,
		Rates:      provider,
		Pages:      pages,
		SignUp:     s.signUp,
		Now:        time.Now,
		Logger:     logger,
	}), nil
}

// pages returns the web pages.
func (s *settings) pages(
	store *database.Store, accounts *account.Service, site *url.URL, secret string, logger *slog.Logger,
) (http.Handler, error) {
	gate, err := s.gate(secret)
	if err != nil {
		return nil, err
	}
	return web.New(web.Config{
		Accounts: accounts,
		Sessions: store,
		Gate:     gate,
		Address:  site,
		Timezone: s.timezone,
		SignUp:   s.signUp,
		Now:      time.Now,
		Logger:   logger,
	})
}
