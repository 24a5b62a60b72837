package caddyupstream

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-tollgate/tollgate/caddymodule"
	"github.com/caddy-tollgate/tollgate/upstream/app"
)

// apps holds the open Apps, so that they outlive the configurations that use
// them.
var apps = caddy.NewUsagePool()

// errNotOpen says that the database is not open yet.
var errNotOpen = errors.New("the upstream's database is not open yet")

// appKey identifies the data of an App in the pool.
type appKey struct{ directory, database string }

// pooledApp is an open App in the pool.
type pooledApp struct {
	*app.App
	rates string // where it fetches rates from
}

// Destruct closes the App.
func (p *pooledApp) Destruct() error { return p.Close() }

// startTimeout bounds the time to open an App: Caddy can neither reload nor
// stop while a configuration starts.
const startTimeout = 30 * time.Second

// open opens the App, unless another configuration or handler has it open.
func (u *Upstream) open() error { return u.openWithin(startTimeout) }

func (u *Upstream) openWithin(timeout time.Duration) error {
	return u.join(func() (caddy.Destructor, error) {
		ctx, stop := context.WithTimeout(context.Background(), timeout)
		defer stop()
		opened, err := app.Open(ctx, u.config, caddymodule.ControlClient(), u.logger)
		if err != nil {
			return nil, fmt.Errorf("opening the upstream: %w", err)
		}
		return &pooledApp{opened, u.config.RatesURL}, nil
	})
}

// join makes the handler a user of the pooled App. If there is none, it
// calls open. errNotOpen leaves the handler without an App.
func (u *Upstream) join(open caddy.Constructor) error {
	if u.pooled != nil {
		return nil
	}
	key := appKey{u.config.Directory, u.config.Database}
	value, _, err := apps.LoadOrNew(key, open)
	if errors.Is(err, errNotOpen) {
		return nil
	}
	if err != nil {
		return err
	}
	u.pooled = &key
	pooled := value.(*pooledApp)
	if pooled.rates != u.config.RatesURL && !u.config.NoRates {
		u.logger.Warn("the URL of rates differs from the one in use, and is ignored until a restart",
			"directory", u.config.Directory)
	}
	handler, err := pooled.Handler(u.config, check)
	if err != nil {
		return err
	}
	u.handler.Store(&handler)
	return nil
}

// leave releases the pooled App.
func (u *Upstream) leave() error {
	if u.pooled == nil {
		return nil
	}
	_, err := apps.Delete(*u.pooled)
	u.pooled = nil
	return err
}
