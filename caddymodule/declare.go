package caddymodule

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-tollgate/tollgate/internal/admin"
	"github.com/caddy-tollgate/tollgate/internal/feature/declare"
	"github.com/caddy-tollgate/tollgate/internal/pool"
	"github.com/caddy-tollgate/tollgate/internal/store"
)

// declared is what an app declares.
type declared struct {
	declaration *declare.Declaration
	// tried tells whether the app has begun to write its declaration.
	tried bool
}

// How long a load waits for a server that is not connected yet: with accounts to
// declare, and without.
const (
	declareWithin = 10 * time.Second
	forgetWithin  = time.Second
)

// declare makes the accounts and keys in the store those of this configuration.
// Without any, the gate starts with a store that fails, as ever. Their events are
// made once all apps have started: until then, nothing takes them.
func (a *App) declare(open *pool.Store) error {
	a.tried = true
	within := declareWithin
	if a.declaration.IsEmpty() {
		within = forgetWithin
	}
	if _, connects := open.Engine.(store.Clock); !connects {
		within = 0
	}
	var err error
	for until := time.Now().Add(within); ; time.Sleep(20 * time.Millisecond) {
		with := &admin.Session{Policy: a.policy, Book: open.Book.Renamed(a.policy.Names), Now: open.Clock.Now(), Follow: func() {}}
		err = a.declaration.Apply(context.Background(), with, a.log)
		if !errors.Is(err, store.ErrUnavailable) || !time.Now().Before(until) {
			break
		}
	}
	if err != nil && a.declaration.IsEmpty() {
		a.log.Warn("cannot find the accounts and keys that an earlier configuration declared; when the store works, load the configuration again", zap.Error(err))
		err = nil
	}
	return err
}

// undeclare makes the configuration that stays in force declare again, if this one
// failed to load after it had declared.
func (a *App) undeclare() {
	stays := a.older()
	if stays == nil {
		return
	}
	if err := stays.declare(stays.store.Load()); err != nil {
		a.log.Error("cannot restore the accounts and keys of the configuration in force; load it again", zap.Error(err))
	}
}

// older returns the app that stays in force with the same store after this app has
// failed to load, or nil.
func (a *App) older() (stays *App) {
	apps.Lock()
	defer apps.Unlock()
	for _, other := range apps.list {
		switch {
		case !a.tried:
			return nil
		case other == a:
			return stays
		case other.tried && other.stopped.Load() == nil && !other.ended.Load() && other.opener.Key() == a.opener.Key():
			stays = other
		}
	}
	return nil
}
