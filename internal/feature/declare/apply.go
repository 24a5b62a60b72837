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

// Check tells whether Apply would work, and changes nothing: the store can be
// written, and other accounts have none of the tokens.
func (d *Declaration) Check(ctx context.Context, with *admin.Session) error {
	if err := with.Book.Engine.Check(ctx); err != nil {
		return fmt.Errorf("accounts and keys of the configuration: %w", err)
	}
	missing := map[string][]key{}
	err := d.change(ctx, with, d.ids, func(a *book.Account) error {
		missing[a.ID] = d.missing(a, with.Now)
		return errSame
	})
	for id, keys := range missing {
		for _, k := range keys {
			if err == nil {
				err = k.checkHolder(ctx, with, id)
			}
		}
	}
	return err
}

// checkHolder refuses a token that an account has, and does not lose by the load.
func (w key) checkHolder(ctx context.Context, with *admin.Session, id string) error {
	holder, err := with.Book.Engine.Holder(ctx, w.Hash)
	var a *book.Account
	if err == nil {
		a, err = with.Book.Get(ctx, holder)
	}
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the account of a token: %w", err)
	}
	if k := a.Holding(w.Hash, with.Now); k == nil || !k.Live(with.Now) || k.Declared {
		return nil
	}
	return fmt.Errorf("%s of the configuration: the account %s has a live key or login with this token: revoke that first", KeySubject(id, w.Name), holder)
}

// Apply makes the accounts and keys in the store those that are declared. If it
// ends before it is done, the next call does the rest.
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
		err = d.replace(ctx, with, last)
		if errors.Is(err, book.ErrConflict) {
			time.Sleep(rand.N(2*time.Since(began) + time.Millisecond))
			continue
		}
		if err != nil || last.Sum == d.sum {
			return err
		}
		if _, shared := with.Book.Engine.(store.Clock); shared && last.Sum != "" && last.Gate != admin.Instance {
			log.Warn("another gate, or this one before it was restarted, had declared other accounts and keys; those of this configuration are in force")
		}
		log.Info("accounts of the configuration are in the store", zap.Int("accounts", len(d.ids)))
		return nil
	}
}

// replace makes the accounts as they are declared, after last. The error is
// book.ErrConflict if another gate has begun to do so, or has done so, meanwhile.
func (d *Declaration) replace(ctx context.Context, with *admin.Session, last book.Declared) error {
	ids, mark := d.ids, last
	if last.Sum != d.sum {
		var err error
		if ids, err = d.withFormer(ctx, with); err != nil {
			return err
		}
		mark = book.Declared{Gate: admin.Instance}
		if err := with.Book.SetDeclared(ctx, last, mark); err != nil {
			return err
		}
	}
	// Keys come in a second step: then another account has lost the token, and a new
	// account exists.
	lacks := map[string]bool{}
	for _, add := range []bool{false, true} {
		if err := d.change(ctx, with, ids, func(a *book.Account) error {
			err := d.edit(ctx, with, a, add)
			lacks[a.ID] = len(d.missing(a, with.Now)) > 0
			return err
		}); err != nil {
			return err
		}
		ids = slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return !lacks[id] })
	}
	return with.Book.SetDeclared(ctx, mark, book.Declared{Sum: d.sum, Gate: admin.Instance})
}

// Compare warns if another gate with the same store has declared something else
// since this one did. It returns the sum of that, and warns of each once.
func (d *Declaration) Compare(ctx context.Context, b *book.Book, warned string, log *zap.Logger) string {
	last, err := b.Declared(ctx)
	if err != nil || last.Sum == "" || last.Sum == d.sum || last.Sum == warned {
		return warned
	}
	log.Warn("another gate has declared other accounts and keys, which are in force; give all gates the same ones", zap.String("gate", last.Gate))
	return last.Sum
}

// withFormer returns the ids of the declaration, and those of accounts that are no
// longer declared.
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

// change edits accounts, each in one step.
func (d *Declaration) change(ctx context.Context, with *admin.Session, ids []string, edit func(*book.Account) error) error {
	for batch := range slices.Chunk(ids, store.MaxBatch) {
		for i, err := range with.Book.Declare(ctx, with.Now, batch, func(_ int, a *book.Account) error {
			before := a.Clone()
			err := edit(a)
			if err == nil && reflect.DeepEqual(before.Account, a.Account) && reflect.DeepEqual(before.Keys, a.Keys) {
				return errSame
			}
			return err
		}) {
			if err != nil && !errors.Is(err, errSame) {
				return fmt.Errorf("account %s of the configuration: %w", batch[i], err)
			}
		}
	}
	return nil
}

// missing returns the declared keys that are not live in an account.
func (d *Declaration) missing(a *book.Account, now time.Time) (keys []key) {
	if want := d.accounts[a.ID]; want != nil {
		keys = slices.DeleteFunc(slices.Clone(want.Keys), func(w key) bool {
			k := a.Holding(w.Hash, now)
			return k != nil && k.Kind == token.Key && k.Live(now)
		})
	}
	return keys
}

// edit makes an account as it is declared, and records that. It adds keys or not.
func (d *Declaration) edit(ctx context.Context, with *admin.Session, a *book.Account, add bool) error {
	want := d.accounts[a.ID]
	switch {
	case want != nil:
		with.DeclareAccount(ctx, a, api.AccountChange{Plan: &want.Plan, Label: &want.Label, Disabled: &want.Disabled, BillingDay: &want.BillingDay}, true)
	case a.Exists:
		with.DeclareAccount(ctx, a, api.AccountChange{}, false)
		want = &account{}
	}
	for _, k := range a.Keys {
		if k.Kind != token.Key || !k.Live(with.Now) {
			continue
		}
		hash := slices.IndexFunc(want.Keys, func(w key) bool { return w.Hash == k.Hash })
		name := slices.IndexFunc(want.Keys, func(w key) bool { return w.Name == k.Name })
		switch before := k.Key; {
		case hash >= 0:
			want.Keys[hash].adopt(ctx, with, a, k)
		case k.Declared:
			k.Declared, k.RevokedAt = false, with.Now
			with.RecordKey(ctx, a, api.KeyRevoke, &before, k.Key)
		case name >= 0: // the names of the file win; a name has at most 64 characters
			k.Name = fmt.Sprintf("%.40s (%s)", k.Name, k.ID)
			with.RecordKey(ctx, a, api.KeySet, &before, k.Key)
		}
	}
	if !add {
		return nil
	}
	for _, w := range d.missing(a, with.Now) {
		switch k := a.Holding(w.Hash, with.Now); {
		case k == nil:
			k := book.Key{Hash: w.Hash, Key: store.Key{
				ID: token.IDOf(a.ID, w.Hash), Account: a.ID, Kind: token.Key, Name: w.Name, Abilities: w.Abilities,
				Hint: token.Hint(""), CreatedAt: admin.Round(with.Now), Declared: true,
			}}
			if err := a.Create(k); err != nil {
				return fmt.Errorf("key %s: %w", w.Name, err)
			}
			with.RecordKey(ctx, a, api.KeyCreate, nil, k.Key)
		case k.Kind != token.Key:
			return store.ErrTokenTaken // a login has it
		default:
			w.adopt(ctx, with, a, k)
		}
	}
	return nil
}

// adopt makes a key that the account has, or had, the declared one. It keeps its
// id, but no limits and addresses: the file has none, and the API cannot change them.
func (w key) adopt(ctx context.Context, with *admin.Session, a *book.Account, k *book.Key) {
	before := k.Key
	k.Name, k.Abilities, k.Declared = w.Name, w.Abilities, true
	k.ExpiresAt, k.RevokedAt, k.Limits, k.Addresses = time.Time{}, time.Time{}, nil, nil
	switch {
	case !before.Live(with.Now):
		with.RecordKey(ctx, a, api.KeyCreate, nil, k.Key)
	case !reflect.DeepEqual(before, k.Key):
		with.RecordKey(ctx, a, api.KeySet, &before, k.Key)
	}
}
