package caddymodule

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-tollgate/tollgate/internal/admin"
	"github.com/caddy-tollgate/tollgate/internal/block"
	"github.com/caddy-tollgate/tollgate/internal/feature/declare"
	"github.com/caddy-tollgate/tollgate/internal/pool"
	"github.com/caddy-tollgate/tollgate/internal/store"
)

// declared is what an app declares.
type declared struct {
	declaration *declare.Declaration
	applied     bool // under declaring
}

// Apps write their declarations one after the other, and an older app none after a
// newer one.
var (
	declaring sync.Mutex
	declarer  atomic.Pointer[App]
)

const (
	// connectWithin is how long a load waits for a server that is not connected yet.
	connectWithin = 3 * time.Second

	// declareEvery is how often an app tries again, and then looks whether another
	// gate has declared something else.
	declareEvery = 5 * time.Second
)

// declare checks that this configuration can declare its accounts and keys, and at
// the start of Caddy does so. On a reload keepDeclared does: the load can still
// fail, and keys of the configuration in force must not. Without any to declare,
// the gate starts with a store that fails, as ever.
func (a *App) declare(open *pool.Store, reload bool) (err error) {
	if !reload {
		declarer.Store(a)
	} else if a.declaration.IsEmpty() {
		return nil
	}
	for until := time.Now().Add(connectWithin); ; time.Sleep(20 * time.Millisecond) {
		err = a.declaration.Check(context.Background(), a.session(open))
		if err == nil && !reload {
			err = a.apply(open)
		}
		if !errors.Is(err, store.ErrUnavailable) || time.Now().After(until) {
			break
		}
	}
	if a.declaration.IsEmpty() {
		return nil // keepDeclared tries again
	}
	return err
}

func (a *App) session(open *pool.Store) *admin.Session {
	return &admin.Session{Policy: a.policy, Book: open.Book.Renamed(a.policy.Names), Now: open.Clock.Now()}
}

// apply applies the declaration, once, unless a newer app has taken over.
func (a *App) apply(open *pool.Store) (err error) {
	declaring.Lock()
	defer declaring.Unlock()
	if !a.applied && declarer.Load() == a {
		err = a.declaration.Apply(context.Background(), a.session(open), a.log)
		a.applied = err == nil
	}
	return err
}

// keepDeclared applies the declaration of a reload, and does so again until it
// succeeds. Then it warns when another gate declares something else. It is called
// in Caddy's event "started": all apps have started then, so that the load can
// hardly fail any more, the apps before are not stopped yet, and the load ends
// after it.
func (a *App) keepDeclared(ctx context.Context) {
	older, open := declarer.Swap(a), a.store.Load()
	err := a.apply(open)
	if err != nil && !(a.declaration.IsEmpty() && (older == nil || older.declaration.IsEmpty())) {
		a.log.Error("cannot apply the accounts and keys of the file: keys that left it can still work; trying again", zap.Error(err))
	}
	go func() {
		controlBackend{a}.Follow()
		for warned := ""; declarer.Load() == a; {
			select {
			case <-ctx.Done():
				return
			case <-time.After(declareEvery):
			}
			if err == nil {
				warned = a.declaration.Compare(ctx, open.Book, warned, a.log)
			} else if err = a.apply(open); err == nil {
				controlBackend{a}.Follow()
			}
		}
	}()
}

func (p *parser) account(id, plan string) error {
	a := declare.Account{ID: id, Plan: plan}
	subject := "account " + id
	if err := p.Unique(subject, "account", id); err != nil {
		return err
	}
	var args []string
	err := p.Block(subject+" ",
		block.Once("label <text>", &a.Label),
		block.Once("disabled [on|off]", &a.Disabled),
		block.Once("billing_day <day>", &a.BillingDay),
		block.Often(keySyntax, &args, func() error { return p.key(args, &a) }),
	)
	p.app.Accounts = append(p.app.Accounts, a)
	return err
}

const keySyntax = "key <name> sha256:<hash> [<abilities...>]"

// key parses a key. Without "sha256:" it has no hash, which is a mistake: the text
// may be a token.
func (p *parser) key(args []string, a *declare.Account) error {
	if len(args) < 2 {
		return p.WrongArguments(keySyntax)
	}
	k := declare.Key{Name: args[0], Abilities: args[2:]}
	if sum, isHash := strings.CutPrefix(args[1], "sha256:"); isHash {
		k.SHA256 = sum
	}
	p.Lines[declare.KeySubject(a.ID, k.Name)] = block.At(p.Dispenser)
	a.Keys = append(a.Keys, k)
	return nil
}
