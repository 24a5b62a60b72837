package caddymodule

import (
	"context"

	"go.uber.org/zap"

	"github.com/caddy-tollgate/tollgate/internal/admin"
	"github.com/caddy-tollgate/tollgate/internal/feature/declare"
)

// declared is what an app declares.
type declared struct {
	declaration *declare.Declaration
	// tried tells whether the app has begun to write its declaration.
	tried bool
}

// declare makes the accounts and keys in the store those of this configuration.
// Without any, the gate starts with a store that fails, as ever.
func (a *App) declare() error {
	a.tried = true
	with := &admin.Session{Policy: a.policy, Book: a.book.Load(), Now: a.now(), Follow: controlBackend{a}.Follow}
	err := a.declaration.Apply(context.Background(), with, a.log)
	if err == nil || !a.declaration.IsEmpty() {
		return err
	}
	a.log.Warn("cannot find accounts that an earlier configuration declared; the next load tries again", zap.Error(err))
	return nil
}

// undeclare makes the configuration that stays in force declare again, if this one
// failed to load after it had declared.
func (a *App) undeclare() {
	stays := a.older()
	if stays == nil {
		return
	}
	if err := stays.declare(); err != nil {
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
		case other == a && a.tried:
			return stays
		case other.tried && other.stopped.Load() == nil && !other.ended.Load() && other.opener.Key() == a.opener.Key():
			stays = other
		}
	}
	return nil
}
