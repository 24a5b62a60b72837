// Package app puts the upstream together from the portal and the currency API,
// which know nothing of each other, and has the settings of both.
//
// A program or another server mounts the handlers of an App. A process can
// run several Apps: they share no state.
package app

import (
	"context"
	"fmt"
	"html/template"
	"log/slog"
	"net/http"
	"runtime/debug"
	"sync"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/assertion"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/upstream/currency/feed"
	"github.com/caddy-tollgate/tollgate/upstream/option"
	"github.com/caddy-tollgate/tollgate/upstream/portal"
	"github.com/caddy-tollgate/tollgate/upstream/server"
)

// App is the upstream without its listeners: the portal, the currency API, and
// their work in the background. Handler makes it answer requests.
type App struct {
	config     Config
	logger     *slog.Logger
	portal     *portal.Portal
	keep       func(name string, work func(context.Context)) // runs work until Close
	stop       context.CancelFunc
	background sync.WaitGroup

	opening sync.Mutex // held while rates is set
	rates   *feed.Feed // nil until a site has the currency API
}

// Open opens the portal and starts the background work. ctx bounds the start
// only. The first site with the currency API opens the rates. The App calls the
// gate by the client, whose connections it does not close. The logger gets what
// clients must not read.
func Open(ctx context.Context, c Config, gate *client.Client, logger *slog.Logger) (*App, error) {
	work, stop := context.WithCancel(context.Background())
	a := &App{config: c, logger: logger, stop: stop}
	a.keep = func(name string, run func(context.Context)) {
		a.background.Go(func() { keepRunning(work, logger, name, run) })
	}
	var err error
	if a.portal, err = portal.Open(ctx, c.Place, gate, a.keep, logger); err != nil {
		stop()
		return nil, err
	}
	return a, nil
}

// Handler returns the handler of a site: the currency API unless it has
// NoRates, the login, the web pages and the health check. Several sites can
// share one App. Check returns nil for a request that the gate passed for a
// purpose, assertion.Call or assertion.Login, and otherwise why it is refused:
// see CheckAssertions.
func (a *App) Handler(c Config, check func(r *http.Request, purpose string) error) (http.Handler, error) {
	config := server.Config{
		Check: check, Login: a.portal.Login(), Database: a.portal, Gate: a.portal.GateState, SignUp: c.SignUp != "",
		Metrics: a.portal.Metrics(), Logger: a.logger,
	}
	var reference map[string]template.HTML
	var missing func() int
	if !c.NoRates {
		rates, err := a.openRates()
		if err != nil {
			return nil, err
		}
		currencies, err := rates.API(c.Address)
		if err != nil {
			return nil, err
		}
		config.API, config.Rates, config.Metrics = currencies, rates.Health, append(config.Metrics, rates.Metrics()...)
		reference, missing = currencies.Reference, rates.Missing
	}
	var err error
	if config.Pages, err = a.portal.Pages(c.Site, reference, missing); err != nil {
		return nil, err
	}
	return server.New(config), nil
}

// openRates opens the rates and keeps them fresh, unless a site before did so.
func (a *App) openRates() (*feed.Feed, error) {
	a.opening.Lock()
	defer a.opening.Unlock()
	if a.rates != nil {
		return a.rates, nil
	}
	rates, err := feed.Open(a.config.Directory, a.config.RatesURL, a.logger)
	if err != nil {
		return nil, err
	}
	a.rates = rates
	a.keep("refreshing rates", rates.Run)
	return rates, nil
}

// Close ends the background work and closes the database. End the requests
// before.
func (a *App) Close() error {
	a.stop()
	a.background.Wait()
	return a.portal.Close()
}

// CheckAssertions returns a check for a site: it accepts a request with
// one Tollgate-Assertion that the gate of this secret made for a host of
// the address. The gate may sign with a newer secret: it tells its keys.
func CheckAssertions(secret, address string, gate *client.Client, logger *slog.Logger) (func(r *http.Request, purpose string) error, error) {
	accepts, err := assertion.Hosts(address)
	if err != nil {
		return nil, &option.Error{Option: "address", Value: address, Want: portal.WantAddress}
	}
	key, err := assertion.NewKey(secret)
	if err != nil {
		return nil, err
	}
	verifier := assertion.NewVerifier(accepts, time.Now, key)
	verifier.FetchKeys(gate.PublicKeys, func(err error) {
		logger.Warn("an assertion has an unknown key", slog.Any("error", err))
	})
	return server.CheckAssertion(verifier), nil
}

// pauseAfterPanic is how long background work pauses after a panic.
const pauseAfterPanic = time.Minute

// keepRunning runs background work until it returns. After a panic it logs the
// stack, pauses, and runs the work again: in one process with the gate, a panic
// must not end the gate.
func keepRunning(ctx context.Context, logger *slog.Logger, name string, work func(context.Context)) {
	for !runOnce(ctx, logger, name, work) {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pauseAfterPanic):
		}
	}
}

// runOnce reports whether the work returned without a panic.
func runOnce(ctx context.Context, logger *slog.Logger, name string, work func(context.Context)) (returned bool) {
	defer func() {
		if reason := recover(); reason != nil {
			logger.Error("background work panicked", "work", name, "reason", fmt.Sprint(reason), "stack", string(debug.Stack()))
		}
	}()
	work(ctx)
	return true
}
