package declare

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/internal/admin"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
	"github.com/caddy-tollgate/tollgate/internal/token"
)

// actor makes the changes in the audit log.
var actor = api.Actor{Kind: api.ActorAdmin, ID: "configuration"}

// errSame ends the step of an account that is as declared.
var errSame = errors.New("the account is as declared")

// IsEmpty tells whether nothing is declared.
func (d *Declaration) IsEmpty() bool { return len(d.ids) == 0 }

// Apply makes the accounts and keys in the store those that are declared. Each
// account changes in one step, but a new one gets its keys in a second step. If
// Apply ends before it is done, the next call does the rest.
//
// Several gates with different declarations apply them one after the other: a gate
// that another one interrupted begins again.
func (d *Declaration) Apply(ctx context.Context, with *admin.Session, log *zap.Logger) error {
	ctx = admin.As(ctx, actor)
	for {
		began := time.Now()
		last, err := with.Book.Declared(ctx)
		if err != nil {
			return fmt.Errorf("reading what is declared: %w", err)
		}
		ids, mark := d.ids, book.Declared{Gate: admin.Instance}
		if last.Sum != d.sum {
			if ids, err = d.withFormer(ctx, with); err == nil {
				err = with.Book.SetDeclared(ctx, last, mark)
			}
		}
		if err == nil {
			err = d.write(ctx, with, ids)
		}
		if err == nil && last.Sum != d.sum {
			err = with.Book.SetDeclared(ctx, mark, book.Declared{Sum: d.sum, Gate: admin.Instance})
		}
		if !errors.Is(err, book.ErrConflict) {
			if _, shared := with.Book.Engine.(store.Clock); shared && err == nil && d.differs(last) && last.Gate != admin.Instance {
				log.Warn("another gate, or this one before it was restarted, had declared other accounts and keys; those of this configuration are in force")
			}
			if err == nil && last.Sum != d.sum {
				log.Info("accounts of the configuration are in the store", zap.Int("accounts", len(d.ids)))
			}
			return err
		}
		time.Sleep(rand.N(2*time.Since(began) + time.Millisecond))
	}
}

// differs tells whether something else was declared.
func (d *Declaration) differs(last book.Declared) bool { return last.Sum != "" && last.Sum != d.sum }

// watchEvery is how often Watch looks.
const watchEvery = 10 * time.Second

// Watch warns when another gate with the same store declares something else, until
// ctx ends.
func (d *Declaration) Watch(ctx context.Context, b *book.Book, log *zap.Logger) {
	if _, shared := b.Engine.(store.Clock); !shared {
		return
	}
	for warned := ""; ; {
		select {
		case <-ctx.Done():
			return
		case <-time.After(watchEvery):
		}
		last, err := b.Declared(ctx)
		if err == nil && d.differs(last) && last.Sum != warned {
			warned = last.Sum
			log.Warn("another gate has declared other accounts and keys, which are in force; give all gates the same ones", zap.String("gate", last.Gate))
		}
	}
}

// withFormer returns the ids of the declaration, and behind them those of accounts
// that are no longer declared: their keys are revoked last.
func (d *Declaration) withFormer(ctx context.Context, with *admin.Session) ([]string, error) {
	ids := slices.Clone(d.ids)
	for a, err := range with.Documents(ctx, "", store.MaxBatch, false) {
		if err != nil {
			return nil, fmt.Errorf("reading accounts: %w", err)
		}
		if a.Declared && d.accounts[a.ID] == nil {
			ids = append(ids, a.ID)
		}
	}
	return ids, nil
}

// write makes accounts as they are declared. A token that another account of the
// list loses is free in the next round.
func (d *Declaration) write(ctx context.Context, with *admin.Session, ids []string) error {
	changed := false
	defer func() {
		if changed {
			with.Follow()
		}
	}()
	for len(ids) > 0 {
		var again []string
		progress := false
		for batch := range slices.Chunk(ids, store.MaxBatch) {
			created := make([]bool, len(batch))
			for i, err := range with.Book.Declare(ctx, with.Now, batch, func(i int, a *book.Account) error {
				created[i] = !a.Exists
				return d.edit(ctx, with, a)
			}) {
				switch {
				case errors.Is(err, store.ErrTokenTaken), err == nil && created[i]:
					again = append(again, batch[i])
				case err != nil && !errors.Is(err, errSame):
					return fmt.Errorf("account %s of the configuration: %w", batch[i], err)
				}
				changed = changed || err == nil
				progress = progress || err == nil || errors.Is(err, errSame)
			}
		}
		if !progress {
			return d.explain(ctx, with, again[0])
		}
		ids = again
	}
	return nil
}

// explain says which key has a token of another account.
func (d *Declaration) explain(ctx context.Context, with *admin.Session, id string) error {
	for _, k := range d.accounts[id].Keys {
		holder, err := with.Book.Holder(ctx, k.Hash, with.Now)
		if err == nil && holder != id {
			return fmt.Errorf("%s of the configuration: the account %s has a live key with this token: revoke that key, or load a configuration without it first", KeySubject(id, k.Name), holder)
		}
	}
	return fmt.Errorf("account %s of the configuration: %w", id, store.ErrTokenTaken)
}

// edit makes an account as it is declared, and records that. The error is errSame
// if it is already. It only creates a new account: a token that another account
// could have belongs to an account that exists.
func (d *Declaration) edit(ctx context.Context, with *admin.Session, a *book.Account) error {
	want, before := d.accounts[a.ID], a.Clone()
	switch {
	case want != nil:
		with.DeclareAccount(ctx, a, api.AccountChange{Plan: &want.Plan, Label: &want.Label, Disabled: &want.Disabled}, true)
	case a.Exists:
		with.DeclareAccount(ctx, a, api.AccountChange{}, false)
		want = &account{}
	}
	if before.Exists {
		if err := want.setKeys(ctx, with, a); err != nil {
			return err
		}
	}
	if reflect.DeepEqual(before.Account, a.Account) && reflect.DeepEqual(before.Keys, a.Keys) {
		return errSame
	}
	return nil
}

// setKeys revokes the declared keys that are not wanted, changes those that the
// account has or had, and then adds the others: their names may have been free
// only now.
func (want *account) setKeys(ctx context.Context, with *admin.Session, a *book.Account) error {
	for _, k := range a.Keys {
		if before := k.Key; k.Declared && !slices.ContainsFunc(want.Keys, func(w key) bool { return w.Hash == k.Hash }) {
			k.Declared, k.RevokedAt = false, with.Now
			with.RecordKey(ctx, a, api.KeyRevoke, &before, k.Key)
		}
	}
	var missing []key
	for _, w := range want.Keys {
		switch k := a.Holding(w.Hash, with.Now); {
		case k == nil:
			missing = append(missing, w)
		case k.Kind != token.Key:
			return fmt.Errorf("key %s: its token is one of a login", w.Name)
		default:
			w.adopt(ctx, with, a, k)
		}
	}
	for _, w := range missing {
		k := book.Key{Hash: w.Hash, Key: store.Key{
			ID: token.IDOf(a.ID, w.Hash), Account: a.ID, Kind: token.Key, Name: w.Name, Abilities: w.Abilities,
			Hint: token.Hint(""), CreatedAt: admin.Round(with.Now), Declared: true,
		}}
		if err := a.Create(k); err != nil {
			return undeclared(w.Name, err)
		}
		with.RecordKey(ctx, a, api.KeyCreate, nil, k.Key)
	}
	return check(a, with.Now)
}

// adopt makes a key that the account has, or had, the declared one. It keeps its
// id, limits and addresses.
func (w key) adopt(ctx context.Context, with *admin.Session, a *book.Account, k *book.Key) {
	before := k.Key
	k.Name, k.Declared, k.ExpiresAt, k.RevokedAt = w.Name, true, time.Time{}, time.Time{}
	if book.JoinAbilities(k.Abilities) != book.JoinAbilities(w.Abilities) {
		k.Abilities = w.Abilities
	}
	switch {
	case !before.Live(with.Now):
		with.RecordKey(ctx, a, api.KeyCreate, nil, k.Key)
	case !reflect.DeepEqual(before, k.Key):
		with.RecordKey(ctx, a, api.KeySet, &before, k.Key)
	}
}

// check refuses an account whose declared keys are in the way of others.
func check(a *book.Account, now time.Time) error {
	names := map[string]bool{}
	for _, k := range a.Keys {
		if k.Kind != token.Key || !k.Live(now) {
			continue
		}
		if names[k.Name] {
			return undeclared(k.Name, store.ErrNameTaken)
		}
		names[k.Name] = true
	}
	if len(names) > store.MaxLiveKeys {
		return undeclared("", store.ErrTooManyKeys)
	}
	return nil
}

// undeclared says what to do about a key that the configuration does not have.
func undeclared(name string, err error) error {
	return fmt.Errorf("key %s: %w: revoke or change the keys of the account that are not declared", name, err)
}
