// Package app puts the whole upstream together: the currency API, the
// logins, the web pages and the health check, over one database and one
// set of rates.
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
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/assertion"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/upstream/currency/api"
	"github.com/caddy-tollgate/tollgate/upstream/currency/rates"
	"github.com/caddy-tollgate/tollgate/upstream/currency/rates/ecb"
	"github.com/caddy-tollgate/tollgate/upstream/portal/account"
	"github.com/caddy-tollgate/tollgate/upstream/portal/account/database"
	"github.com/caddy-tollgate/tollgate/upstream/portal/web"
	"github.com/caddy-tollgate/tollgate/upstream/server"
)

// endLoginsEvery is how often an App looks for login tokens that the gate
// did not end when a password was changed. Usually the query finds no row.
const endLoginsEvery = 2 * time.Second

// pruneEvery is how often an App deletes reset links and sessions that ended.
const pruneEvery = 10 * time.Minute

// App is the upstream without its listeners: its database, its rates, and
// the goroutines that check the gate, refresh the rates, end old login tokens,
// and delete reset links and sessions that have ended. Handler makes it answer
// requests.
type App struct {
	config     Config
	client     *client.Client
	logger     *slog.Logger
	store      *database.Store
	accounts   *account.Service
	gate       *gateCheck
	keep       func(name string, work func(context.Context)) // runs work until Close
	stop       context.CancelFunc
	background sync.WaitGroup

	opening sync.Mutex    // held while rates is set
	rates   *ecb.Provider // nil until a site has the currency API
}

// Open opens the database and starts the background work. ctx bounds the start
// only. The first site with the currency API opens the rates. The App calls the
// gate by the client, whose connections it does not close. The logger gets what
// clients must not read.
func Open(ctx context.Context, c Config, gate *client.Client, logger *slog.Logger) (*App, error) {
	store, err := c.OpenDatabase(ctx)
	if err != nil {
		return nil, err
	}
	work, stop := context.WithCancel(context.Background())
	a := &App{
		config: c, client: gate, logger: logger, store: store,
		accounts: Accounts(store, gate, logger), gate: newGateCheck(gate, logger), stop: stop,
	}
	a.keep = func(name string, run func(context.Context)) {
		a.background.Go(func() { keepRunning(work, logger, name, run) })
	}
	a.keep("checking the gate", a.gate.run)
	a.keep("ending logins", func(ctx context.Context) { a.accounts.Run(ctx, endLoginsEvery) })
	a.keep("pruning", func(ctx context.Context) { a.accounts.Prune(ctx, pruneEvery) })
	return a, nil
}

// Handler returns the handler of a site: the currency API unless it has
// NoRates, the login, the web pages and the health check. Several sites can
// share one App. Check returns nil for a request that the gate passed for a
// purpose, assertion.Call or assertion.Login, and otherwise why it is refused:
// see CheckAssertions.
func (a *App) Handler(c Config, check func(r *http.Request, purpose string) error) (http.Handler, error) {
	config := server.Config{
		Check:    check,
		Logins:   a.accounts,
		Database: a.store,
		Gate:     a.gate.State,
		SignUp:   c.SignUp != "",
		Now:      time.Now,
		Logger:   a.logger,
	}
	if a.config.Database == "" {
		config.CopiedAt = func() time.Time { return database.CopiedAt(a.config.Directory) }
	}
	var reference map[string]template.HTML
	var missed func() int
	if !c.NoRates {
		provider, err := a.openRates()
		if err != nil {
			return nil, err
		}
		currencies, err := api.New(provider, c.Address, time.Now)
		if err != nil {
			return nil, fmt.Errorf("preparing API: %w", err)
		}
		config.Rates, config.API, reference = provider, currencies, currencies.Reference
		missed = func() int { return provider.Missed(time.Now()) }
	}
	pages, err := web.New(web.Config{
		Accounts: a.accounts,
		Sessions: a.store,
		Gate:     a.client,
		Site:     c.Site,
		Docs:     reference,
		Rates:    missed,
		Now:      time.Now,
		Logger:   a.logger,
	})
	if err != nil {
		return nil, fmt.Errorf("preparing pages: %w", err)
	}
	config.Pages = pages
	return server.New(config), nil
}

// openRates opens the rates and keeps them fresh, unless a site before did so.
func (a *App) openRates() (*ecb.Provider, error) {
	a.opening.Lock()
	defer a.opening.Unlock()
	if a.rates != nil {
		return a.rates, nil
	}
	provider, err := a.config.OpenRates(a.logger)
	if err != nil {
		return nil, err
	}
	a.rates = provider
	a.keep("refreshing rates", provider.Run)
	return provider, nil
}

// Close ends the background work and closes the database. End the requests
// before.
func (a *App) Close() error {
	a.stop()
	a.background.Wait()
	return a.store.Close()
}

// OpenDatabase opens the account database. The caller closes it.
func (c Config) OpenDatabase(ctx context.Context) (*database.Store, error) {
	if c.Database != "" {
		return database.OpenURL(ctx, c.Database)
	}
	return database.OpenFile(ctx, c.Directory)
}

// OpenRates reads the embedded rates and those in the data directory.
func (c Config) OpenRates(logger *slog.Logger) (*ecb.Provider, error) {
	bank, err := ecb.Embedded()
	if err != nil {
		return nil, err
	}
	indicative, err := rates.Indicative()
	if err != nil {
		return nil, err
	}
	return ecb.Open(ecb.Options{
		Indicative: indicative,
		Bank:       bank,
		Directory:  filepath.Join(c.Directory, "rates"),
		URL:        c.RatesURL,
		Logger:     logger,
	})
}

// Accounts returns the accounts in an open database.
func Accounts(store *database.Store, gate *client.Client, logger *slog.Logger) *account.Service {
	hasher := account.NewHasher(account.DefaultCost(), runtime.GOMAXPROCS(0))
	return account.NewService(store, gate, hasher, time.Now, logger)
}

// CheckAssertions returns a check for a site: it accepts a request with
// one Tollgate-Assertion that the gate of this secret made for a host of
// the address. The gate may sign with a newer secret: it tells its keys.
func CheckAssertions(secret, address string, gate *client.Client, logger *slog.Logger) (func(r *http.Request, purpose string) error, error) {
	accepts, err := assertion.Hosts(address)
	if err != nil {
		return nil, &OptionError{"address", address, WantAddress}
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
