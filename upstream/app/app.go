// Package app puts the whole upstream together: the currency API, the
// logins, the web pages and the health check, over one database and one
// set of rates.
//
// An App is an http.Handler that a program or another server mounts. A
// process can run several: they share no state.
package app

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
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

// App is the upstream: an http.Handler with its database, its rates and the
// goroutines that refresh the rates and end old login tokens.
type App struct {
	http.Handler
	store      *database.Store
	stop       context.CancelFunc
	background sync.WaitGroup
}

// New checks the options, opens the database and the rates, and starts the
// background work. ctx bounds the start only. The error is an *OptionError
// for an invalid option.
func New(ctx context.Context, o Options) (*App, error) {
	site, err := o.validate()
	if err != nil {
		return nil, err
	}
	provider, err := o.OpenRates()
	if err != nil {
		return nil, err
	}
	store, err := o.OpenDatabase(ctx)
	if err != nil {
		return nil, err
	}
	accounts := o.Accounts(store)
	handler, err := o.handler(site, store, accounts, provider)
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	a := &App{Handler: handler, store: store, stop: stop}
	a.background.Go(func() { provider.Run(work) })
	a.background.Go(func() { accounts.Run(work, endLoginsEvery) })
	return a, nil
}

// Close ends the background work and closes the database. Stop sending
// requests before.
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
		Base:       base,
		Directory:  o.ratesDirectory(),
		HistoryURL: o.RatesHistory,
		DailyURL:   o.RatesDaily,
		Logger:     o.Logger,
	})
}

// Accounts returns the accounts in an open database.
func (o Options) Accounts(store *database.Store) *account.Service {
	hasher := account.NewHasher(account.DefaultCost(), runtime.GOMAXPROCS(0))
	return account.NewService(store, o.Control, hasher, time.Now, o.Logger)
}

func (o Options) handler(
	site *url.URL, store *database.Store, accounts *account.Service, provider *ecb.Provider,
) (http.Handler, error) {
	currencies, err := api.New(provider, site, time.Now)
	if err != nil {
		return nil, fmt.Errorf("preparing API: %w", err)
	}
	pages, err := web.New(web.Config{
		Accounts: accounts,
		Sessions: store,
		Gate:     o.Control,
		Address:  site,
		Timezone: o.Timezone,
		SignUp:   o.SignUp,
		Now:      time.Now,
		Logger:   o.Logger,
	})
	if err != nil {
		return nil, fmt.Errorf("preparing pages: %w", err)
	}
	return server.New(server.Config{
		Check:    o.Check,
		API:      currencies,
		Logins:   accounts,
		Database: store,
		Rates:    provider,
		Pages:    pages,
		SignUp:   o.SignUp,
		Now:      time.Now,
		Logger:   o.Logger,
	}), nil
}
