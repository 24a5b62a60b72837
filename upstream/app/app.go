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
	"net/http"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/caddy-tollgate/tollgate/upstream/account"
	"github.com/caddy-tollgate/tollgate/upstream/account/database"
	"github.com/caddy-tollgate/tollgate/upstream/api"
	"github.com/caddy-tollgate/tollgate/upstream/rates"
	"github.com/caddy-tollgate/tollgate/upstream/rates/ecb"
	"github.com/caddy-tollgate/tollgate/upstream/server"
	"github.com/caddy-tollgate/tollgate/upstream/web"
)

// endLoginsEvery is how often an App looks for login tokens that the gate
// did not end when a password was changed. Usually the query finds no row.
const endLoginsEvery = 2 * time.Second

// pruneEvery is how often an App deletes reset links and sessions that ended.
const pruneEvery = 10 * time.Minute

// App is the upstream without its listeners: its database, its rates, and
// the goroutines that check the gate, refresh the rates, end old login tokens,
// and delete reset links and sessions that have ended. Handler makes it answer requests.
type App struct {
	options    Options
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
// only. The first site with the currency API opens the rates. The error is an
// *OptionError for an invalid option.
func Open(ctx context.Context, o Options) (*App, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	store, err := o.OpenDatabase(ctx)
	if err != nil {
		return nil, err
	}
	work, stop := context.WithCancel(context.Background())
	a := &App{options: o, store: store, accounts: o.Accounts(store), gate: newGateCheck(o.Control, o.Logger), stop: stop}
	a.keep = func(name string, run func(context.Context)) {
		a.background.Go(func() { keepRunning(work, o.Logger, name, run) })
	}
	a.keep("checking the gate", a.gate.run)
	a.keep("ending logins", func(ctx context.Context) { a.accounts.Run(ctx, endLoginsEvery) })
	a.keep("pruning", func(ctx context.Context) { a.accounts.Prune(ctx, pruneEvery) })
	return a, nil
}

// Handler returns the handler of a site: the currency API unless the site has
// NoRates, the login, the web pages and the health check. Several sites can
// share one App. The error is an *OptionError for an invalid part of the site.
func (a *App) Handler(s Site) (http.Handler, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	address, err := PublicURL(s.Address)
	if err != nil {
		return nil, err
	}
	brand, err := s.brand()
	if err != nil {
		return nil, err
	}
	config := server.Config{
		Check:    s.Check,
		Logins:   a.accounts,
		Database: a.store,
		Gate:     a.gate.State,
		SignUp:   s.SignUp != "",
		Now:      time.Now,
		Logger:   a.options.Logger,
	}
	var reference map[string]template.HTML
	if !s.NoRates {
		provider, err := a.openRates()
		if err != nil {
			return nil, err
		}
		currencies, err := api.New(provider, address, time.Now)
		if err != nil {
			return nil, fmt.Errorf("preparing API: %w", err)
		}
		config.Rates, config.API, reference = provider, currencies, currencies.Reference
	}
	pages, err := web.New(web.Config{
		Accounts: a.accounts,
		Sessions: a.store,
		Gate:     a.options.Control,
		Address:  address,
		Timezone: s.Timezone,
		SignUp:   s.SignUp,
		Brand:    brand,
		NoRates:  s.NoRates,
		Docs:     reference,
		Now:      time.Now,
		Logger:   a.options.Logger,
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
	provider, err := a.options.OpenRates()
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
func (o Options) OpenDatabase(ctx context.Context) (*database.Store, error) {
	if o.Database != "" {
		return database.OpenURL(ctx, o.Database)
	}
	return database.OpenFile(ctx, o.Directory)
}

// OpenRates reads the embedded rates and those in the data directory.
func (o Options) OpenRates() (*ecb.Provider, error) {
	base, err := rates.Snapshot()
	if err != nil {
		return nil, fmt.Errorf("reading embedded rates: %w", err)
	}
	return ecb.Open(ecb.Options{
		Base:      base,
		Directory: filepath.Join(o.Directory, "rates"),
		URL:       o.Rates,
		Logger:    o.Logger,
	})
}

// Accounts returns the accounts in an open database.
func (o Options) Accounts(store *database.Store) *account.Service {
	hasher := account.NewHasher(account.DefaultCost(), runtime.GOMAXPROCS(0))
	return account.NewService(store, o.Control, hasher, time.Now, o.Logger)
}
