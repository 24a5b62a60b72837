package caddymodule

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/caddy-tollgate/tollgate/internal/misuse"
	"github.com/caddy-tollgate/tollgate/internal/pool"
)

const storeNamespace = "tollgate.stores"

// checkStore refuses the name of a store that this Caddy does not have.
func checkStore(name string) error {
	var known []string
	for _, m := range caddy.GetModules(storeNamespace) {
		known = append(known, m.ID.Name())
	}
	switch {
	case slices.Contains(known, name):
		return nil
	case name == "redis":
		return mistake("store", "this Caddy has no store %q: build one with xcaddy build --with github.com/caddy-tollgate/tollgate/caddymodule/redis", name)
	}
	return mistake("store", "unknown store %q: %s", name, misuse.Suggest(name, known))
}

// loadStore provisions the store of a configuration.
func (a *App) loadStore(ctx caddy.Context) (pool.Opener, error) {
	var named struct{ Module string }
	if err := json.Unmarshal(a.StoreRaw, &named); err != nil {
		return nil, fmt.Errorf("reading the store: %w", err)
	}
	if err := checkStore(named.Module); err != nil {
		return nil, err
	}
	module, err := ctx.LoadModule(a, "StoreRaw")
	if err != nil {
		return nil, fmt.Errorf("loading the store: %w", err)
	}
	opener, ok := module.(pool.Opener)
	if !ok {
		return nil, mistake("store", "the module %s.%s is not a store", storeNamespace, named.Module)
	}
	return opener, nil
}

// openStore returns the open store. It opens it, unless another configuration has it
// open.
func (a *App) openStore() (*pool.Store, error) {
	open := a.store.Load()
	if open == nil {
		return pool.Join(a.opener, attach)
	}
	if !open.HasSettings(a.opener) {
		a.log.Warn("store settings changed; restart to apply them", zap.String("store", a.opener.Key()))
	}
	return open, nil
}

// use makes an open store that of this app.
func (a *App) use(open *pool.Store) {
	if open != nil {
		a.book.Store(open.Book.Renamed(a.policy.Names))
		a.store.Store(open)
	}
}
