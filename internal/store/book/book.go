package book

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/outage"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/token"
)

// Book keeps what a gate knows in an engine. All methods are safe for
// concurrent use.
type Book struct {
	Engine
	store.Concurrency
	recent  *Behind
	damaged *outage.Log // of rows of recent
	names   store.Names
	clock   func() time.Time // nil for that of the engine
}

// New returns a book on an engine. It logs what it cannot write in the
// background.
func New(e Engine, logger *slog.Logger) *Book {
	return &Book{
		Engine: e, Concurrency: concurrencyOf(e),
		recent:  &Behind{Engine: e, Every: flushEvery, Most: maxPending, Soon: true, Log: outage.New(logger, slog.LevelError, "writing recent calls")},
		damaged: outage.New(logger, slog.LevelError, "reading the recent calls of an account"),
	}
}

// Close writes the recent calls that are pending. It does not close the engine.
func (b *Book) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeWithin)
	defer cancel()
	return b.recent.Close(ctx)
}

// closeWithin is how long Close may take.
const closeWithin = 10 * time.Second

// WithClock returns the book with another clock than that of the engine.
func (b *Book) WithClock(now func() time.Time) *Book {
	moved := *b
	moved.clock = now
	return &moved
}

// now is the time of the engine.
func (b *Book) now() time.Time {
	if b.clock != nil {
		return b.clock()
	}
	if clock, ok := b.Engine.(store.Clock); ok {
		return clock.Now()
	}
	return time.Now()
}

// Now is the time of the engine, which gates that share it agree on.
func (b *Book) Now() time.Time { return b.now() }

// ChangeOne is Change for one document.
func (b *Book) ChangeOne(ctx context.Context, at time.Time, id string, edit func(*Account) error) error {
	return b.Change(ctx, at, []string{id}, func(_ int, a *Account) error { return edit(a) })[0]
}

// Change is that of the engine. A key of Account.Import that the account had
// already is store.ErrExists. A change of what the configuration file declares is
// store.ErrDeclared.
func (b *Book) Change(ctx context.Context, at time.Time, ids []string, edit func(i int, a *Account) error) []error {
	return b.Declare(ctx, at, ids, func(i int, a *Account) error {
		if !a.Declared {
			return edit(i, a)
		}
		before := a.Clone()
		err := edit(i, a)
		if err == nil && !a.keepsDeclared(before) {
			err = store.ErrDeclared
		}
		return err
	})
}

// Declare is Change for a load of a configuration: it also changes what is
// declared.
func (b *Book) Declare(ctx context.Context, at time.Time, ids []string, edit func(i int, a *Account) error) []error {
	if len(ids) == 0 {
		return nil
	}
	deleted := make([]bool, len(ids))
	errs := b.Engine.Change(ctx, at, ids, func(i int, a *Account) error {
		existed := a.Exists
		b.translate(a, store.Renames.Today)
		a.endPlan(at)
		err := edit(i, a)
		b.translate(a, store.Renames.Oldest)
		deleted[i] = existed && !a.Exists
		return err
	})
	for i, err := range errs {
		switch {
		case errors.Is(err, ErrConflict):
			errs[i] = store.ErrExists
		case err == nil && deleted[i]:
			// Calls of the deleted account that are written later do not belong
			// to the next account with this id. What cannot be written is
			// dropped, which is as good.
			_ = b.recent.Flush(ctx, ids[i])
		}
	}
	return errs
}

// errNoneAdded ends the step of an account that gets none of the keys.
var errNoneAdded = errors.New("no key was added")

// ImportKeys adds keys whose tokens another system made, in their order, and
// returns an error or nil for each; see Account.Import. Those of one account
// are added in one step. created is called for each key that is added, to
// record it in that step.
func (b *Book) ImportKeys(ctx context.Context, at time.Time, keys []Key, created func(a *Account, key *Key)) []error {
	errs, ids, ofAccount := make([]error, len(keys)), []string{}, map[string][]int{}
	for i, k := range keys {
		if ofAccount[k.Account] == nil {
			ids = append(ids, k.Account)
		}
		ofAccount[k.Account] = append(ofAccount[k.Account], i)
	}
	failed := b.Change(ctx, at, ids, func(n int, a *Account) error {
		step := errNoneAdded
		for _, i := range ofAccount[ids[n]] {
			if errs[i] = a.Import(keys[i]); errs[i] == nil {
				step = nil
				created(a, &keys[i])
			}
		}
		return step
	})
	for n, err := range failed {
		if err == nil || errors.Is(err, errNoneAdded) {
			continue
		}
		of := ofAccount[ids[n]]
		oneOf := errors.Is(err, store.ErrTokenTaken) || errors.Is(err, store.ErrExists)
		for _, i := range of {
			if errs[i] = err; oneOf && len(of) > 1 { // each in a step of its own
				errs[i] = b.ImportKeys(ctx, at, keys[i:i+1], created)[0]
			}
		}
	}
	return errs
}

// WasImported tells whether an imported key ended within store.RevokedFor and
// is no longer in the document of its account. Account.Import refuses it.
func (b *Book) WasImported(ctx context.Context, account, id string) (bool, error) {
	return b.readRow(ctx, Space{Account: account}, endedRow(id), new(bool))
}

// Holder returns the account that has a key with this hash that is live at a
// time, also if the account is disabled, or store.ErrNotFound. It is not from
// a cache.
func (b *Book) Holder(ctx context.Context, hash token.Hash, at time.Time) (string, error) {
	id, err := b.Engine.Holder(ctx, hash)
	if err != nil {
		return "", err
	}
	a, err := b.Get(ctx, id)
	if err != nil {
		return "", err
	}
	if !slices.ContainsFunc(a.Keys, func(k *Key) bool { return k.Hash == hash && k.Live(at) }) {
		return "", store.ErrNotFound
	}
	return id, nil
}

// Keys returns the account's keys, oldest first, with those that ended and are
// kept, and with their last use. The error is store.ErrNotFound without an
// account.
func (b *Book) Keys(ctx context.Context, account string) ([]store.Key, error) {
	a, err := b.Get(ctx, account)
	if err != nil {
		return nil, err
	}
	used, err := b.lastUses(ctx, account)
	if err != nil {
		return nil, err
	}
	list := make([]store.Key, len(a.Keys))
	for i, k := range a.Keys {
		list[i] = k.Key
		list[i].LastUsedAt, list[i].LastUsedFrom = used[k.ID].At, used[k.ID].From
	}
	return list, nil
}

// Key returns one of Keys, or store.ErrNotFound.
func (b *Book) Key(ctx context.Context, account, id string) (store.Key, error) {
	keys, err := b.Keys(ctx, account)
	if err != nil {
		return store.Key{}, err
	}
	for _, k := range keys {
		if k.ID == id {
			return k, nil
		}
	}
	return store.Key{}, store.ErrNotFound
}

// retry repeats a step after a conflict with another writer.
func retry(ctx context.Context, step func() error) error {
	for {
		err := step()
		if !errors.Is(err, ErrConflict) {
			return err
		}
		select {
		case <-time.After(rand.N(5 * time.Millisecond)):
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
		}
	}
}

// readRow decodes the value of a row, and tells whether there is one.
func (b *Book) readRow(ctx context.Context, of Space, key string, value any) (found bool, err error) {
	rows, err := b.GetRows(ctx, of, key)
	if err != nil || rows[0].Value == nil {
		return false, err
	}
	return true, DecodeRow(rows[0], value)
}

// commitOne is Commit for one batch.
func commitOne(ctx context.Context, e Engine, of Space, writes []Write) error {
	return e.Commit(ctx, Batch{Space: of, Writes: writes})[0]
}
