package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/internal/admin/event"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
	"github.com/caddy-tollgate/tollgate/caddymodule/token"
)

// change is a change of an account or of one of its keys.
type change struct {
	action, account, target string
	// before and after are values of package api in JSON, nil if there is
	// none.
	before, after json.RawMessage
	// event is the event to publish, nil for none.
	event *event.Change
}

// isNothing tells whether there is nothing to change.
func (c change) isNothing() bool { return bytes.Equal(c.before, c.after) }

// isSame tells whether two changes of one account do the same.
func (c change) isSame(other change) bool {
	return c.action == other.action && c.target == other.target && bytes.Equal(c.before, other.before) && bytes.Equal(c.after, other.after)
}

// record adds changes to the audit log. Call it before each change: then no
// change is missing in the log, also if a later step fails.
func (with *session) record(ctx context.Context, changes ...change) error {
	if len(changes) == 0 {
		return nil
	}
	who := actorOf(ctx)
	entries := make([]store.Entry, len(changes))
	for i, c := range changes {
		entries[i] = store.Entry{
			At: round(with.now), ActorKind: who.Kind, ActorID: who.ID,
			Action: c.action, Account: c.account, Target: c.target, Before: c.before, After: c.after,
		}
	}
	if err := with.store.AddEntries(ctx, entries); err != nil {
		return fmt.Errorf("writing the audit log: %w", err)
	}
	for i, c := range changes {
		if c.event != nil {
			c.event.ID, c.event.At, c.event.Account = entries[i].ID.String(), entries[i].At, c.account
		}
	}
	return nil
}

// tellAtOnce is how many events are published at once, so that an import does
// not wait for a store over a network line by line.
const tellAtOnce = 64

// tell publishes the events of changes that are recorded and made. The changes
// are of different accounts or keys, so their order does not matter.
func (with *session) tell(ctx context.Context, changes ...change) {
	var telling errgroup.Group
	telling.SetLimit(tellAtOnce)
	for _, c := range changes {
		if c.event != nil {
			telling.Go(func() error {
				with.publish(ctx, *c.event)
				return nil
			})
		}
	}
	_ = telling.Wait() // no function fails
}

// tellingAgain is how long after a revocation a repeated one publishes its
// event. The store must still know the id of the event. A webhook gets no
// event that is older than a day.
const tellingAgain = 24 * time.Hour

// tellAgain publishes the event of a key that an earlier request revoked: the
// answer of the store to that request may have been lost, and then nothing was
// published. The event has the same id, so others get it once.
func (with *session) tellAgain(ctx context.Context, key store.Key) error {
	if with.now.Sub(key.RevokedAt) >= tellingAgain {
		return nil
	}
	ring, err := with.ring(ctx, key.Account)
	if err != nil {
		return err
	}
	rotated := slices.ContainsFunc(ring, func(k *store.Key) bool { return k.Replaces(&key) && k.CreatedAt.Equal(key.RevokedAt) })
	revocation := keyChange(api.KeyRevoke, api.LoginRevoke, event.KeyRevoked, nil, &key)
	if rotated || revocation.event == nil {
		return nil
	}
	revocation.event.At, revocation.event.Account = round(key.RevokedAt), key.Account
	with.tell(ctx, revocation)
	return nil
}

// errNotRecorded stops a change that is not in the audit log.
var errNotRecorded = errors.New("the change is not in the audit log")

// accountEdit changes an account and returns the change.
type accountEdit func(account *store.Account, exists bool) (change, error)

// changeAccount is changeAccounts for one account.
func (with *session) changeAccount(ctx context.Context, id string, edit accountEdit) (store.Account, error) {
	accounts, errs := with.changeAccounts(ctx, []string{id}, func(_ int, account *store.Account, exists bool) (change, error) {
		return edit(account, exists)
	})
	return accounts[0], errs[0]
}

// changeAccounts records changes of different accounts, makes each in one
// step, and publishes their events. It returns what ChangeAccounts of a store
// does. edit may be called more than once: first to find out what to record. If
// an account changes after that, it records and tries again, so that before and
// after of a change that was made are exact.
func (with *session) changeAccounts(ctx context.Context, ids []string, edit func(i int, account *store.Account, exists bool) (change, error)) ([]store.Account, []error) {
	accounts, errs := make([]store.Account, len(ids)), make([]error, len(ids))
	recorded, wanted := make([]change, len(ids)), make([]change, len(ids))
	waiting := make([]int, len(ids)) // positions in ids
	for i := range waiting {
		waiting[i] = i
	}
	for len(waiting) > 0 {
		some := make([]string, len(waiting))
		for n, i := range waiting {
			some[n] = ids[i]
		}
		changed, failed := with.store.ChangeAccounts(ctx, some, func(n int, account *store.Account, exists bool) (err error) {
			i := waiting[n]
			if wanted[i], err = edit(i, account, exists); err != nil || wanted[i].isNothing() || wanted[i].isSame(recorded[i]) {
				return err
			}
			return errNotRecorded
		})
		var missing []int
		var entries, made []change
		for n, i := range waiting {
			accounts[i], errs[i] = changed[n], failed[n]
			switch {
			case errors.Is(failed[n], errNotRecorded):
				recorded[i] = wanted[i]
				missing, entries = append(missing, i), append(entries, wanted[i])
			case failed[n] == nil && !wanted[i].isNothing():
				made = append(made, recorded[i])
			}
		}
		with.tell(ctx, made...)
		if err := with.record(ctx, entries...); err != nil {
			for _, i := range missing {
				errs[i] = err
			}
			break
		}
		waiting = missing
	}
	return accounts, errs
}

// accountChange returns the change of an account, which is new without before.
func accountChange(before *store.Account, after store.Account) change {
	c := change{action: api.AccountCreate, account: after.ID}
	old := ""
	if before != nil {
		c.action, c.before, old = api.AccountSet, accountEntry(*before, false), before.Label
	}
	c.after = accountEntry(after, after.Label != old)
	c.event = &event.Change{Type: event.AccountChanged, Plan: after.Plan, Disabled: after.Disabled}
	return c
}

// accountEntry returns an account for an entry. The label is usually an e-mail,
// and entries outlive the account, so they only tell that it has changed.
func accountEntry(account store.Account, labelChanged bool) json.RawMessage {
	return encode(struct {
		api.Account

		Label        string `json:"label,omitempty"` // hides that of the account
		LabelChanged bool   `json:"label_changed,omitempty"`
	}{Account: showAccount(account), LabelChanged: labelChanged})
}

// keyChange returns the change of a key or of a login token. Login tokens
// have actions of their own, and no events.
func keyChange(action, loginAction, eventType string, before, after *store.Key) change {
	key := after
	c := change{action: action, account: key.Account, target: key.ID, after: encode(entryOf(*after))}
	if before != nil {
		c.before = encode(entryOf(*before))
	}
	switch {
	case key.Kind == token.Login:
		c.action = loginAction
	case eventType != "":
		c.event = &event.Change{Type: eventType, Key: key.ID, KeyName: key.Name}
	}
	return c
}

// entryOf returns a key for an entry, without its last call, which is not a
// change, and without its root: the entry of a rotation has both keys.
func entryOf(key store.Key) api.Key {
	shown := showKey(key)
	shown.Root, shown.LastUsedAt, shown.LastUsedFrom = "", nil, nil
	return shown
}

func encode(value any) json.RawMessage {
	text, err := json.Marshal(value)
	if err != nil {
		panic("control: encoding an audit entry: " + err.Error()) // types of package api always encode
	}
	return text
}
