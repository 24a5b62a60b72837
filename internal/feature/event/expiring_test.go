package event_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/internal/feature/event"
	"github.com/caddy-tollgate/tollgate/internal/outage/posttest"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
	"github.com/caddy-tollgate/tollgate/internal/store/memstore"
	"github.com/caddy-tollgate/tollgate/internal/token"
)

const day = 24 * time.Hour

// changeKey changes the keys of an account, with an entry of one of them as the
// control API records it.
func changeKey(t *testing.T, db *event.Queue, account, action, id string, edit func(a *book.Account, now time.Time) error) {
	t.Helper()
	now := time.Now()
	must(t, db.ChangeOne(t.Context(), now, account, func(a *book.Account) error {
		a.Exists = true
		err := edit(a, now)
		if k := a.Find(id); err == nil {
			shown := api.Key{ID: id, Name: k.Name, CreatedAt: k.CreatedAt}
			if !k.ExpiresAt.IsZero() {
				shown.ExpiresAt = &k.ExpiresAt
			}
			text, err := json.Marshal(shown)
			must(t, err)
			a.Record(store.Entry{At: now, Action: action, Target: id, After: text})
		}
		return err
	}))
}

// aKey returns a key that expires after a time, zero for never.
func aKey(id string, now time.Time, expires time.Duration) book.Key {
	key := book.Key{Key: store.Key{ID: id, Kind: token.Key, Name: id, CreatedAt: now}, Hash: token.Foreign(id)}
	if expires > 0 {
		key.ExpiresAt = now.Add(expires)
	}
	return key
}

// change changes an account without an entry.
func change(t *testing.T, db *event.Queue, account string, edit func(a *book.Account) error) {
	t.Helper()
	must(t, db.ChangeOne(t.Context(), time.Now(), account, edit))
}

// TestKeyExpiring: a live key gets one event for each expiry, seven days before,
// from several gates, with restarts.
func TestKeyExpiring(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		engine, began := memstore.New(), time.Now()
		dbs := []*event.Queue{over(t, shared{engine}), over(t, shared{engine})}
		db := dbs[0]
		var mu sync.Mutex
		var got []string
		// run runs two gates for a minute.
		run := func(during func()) {
			var gates []*event.Emitter
			for _, db := range dbs {
				gates = append(gates, event.NewEmitter(event.EmitterOptions{
					Queue: db, Webhook: func() *event.Webhook { return nil }, Count: new(posttest.Counts).Add, Logger: zap.NewNop(),
					Emit: func(kind string, data map[string]any) {
						if kind != event.KeyExpiring {
							return
						}
						mu.Lock()
						defer mu.Unlock()
						got = append(got, fmt.Sprintf("%s %s %s on day %d, ends on %d", data["account"], data["key"], data["name"],
							time.Since(began)/day, data["expires_at"].(time.Time).Sub(began)/day))
					},
				}))
			}
			if during != nil {
				during()
			}
			time.Sleep(time.Minute)
			for _, e := range gates {
				e.Close()
			}
		}
		create := func(id string, expires time.Duration) {
			changeKey(t, db, "acc_"+id, api.KeyCreate, id, func(a *book.Account, now time.Time) error { return a.Create(aKey(id, now, expires)) })
		}
		set := func(id string, expires time.Duration) {
			changeKey(t, db, "acc_"+id, api.KeySet, id, func(a *book.Account, now time.Time) error {
				_, err := a.ChangeKey(id, now, func(k *store.Key) error { k.ExpiresAt = now.Add(expires); return nil })
				return err
			})
		}
		run(func() {
			for _, id := range []string{"plain", "earlier", "later", "rotated", "revoked", "disabled", "deleted"} {
				create(id, 20*day)
			}
			create("short", 7*day)
			create("never", 0)
			create("set", 0)
			change(t, db, "acc_login", func(a *book.Account) error {
				a.Exists = true
				login := aKey("login", began, 20*day)
				login.Kind = token.Login
				return a.Create(login)
			})
		})
		time.Sleep(5 * day)
		run(func() {
			set("earlier", 10*day)
			set("later", 30*day)
			set("set", 2*day) // the event comes at once
			set("plain", 30*day)
			set("plain", 15*day)
			changeKey(t, db, "acc_rotated", api.KeyRotate, "next", func(a *book.Account, now time.Time) error {
				_, err := a.Rotate("rotated", aKey("next", now, 0), now.Add(30*day)) // both expire as the old key does
				return err
			})
			change(t, db, "acc_revoked", func(a *book.Account) error { return a.Revoke("revoked", time.Now()) })
			change(t, db, "acc_disabled", func(a *book.Account) error { a.Disabled = true; return nil })
			change(t, db, "acc_deleted", func(a *book.Account) error { a.Exists = false; return nil })
		})
		var want []string
		for _, step := range []struct {
			wait time.Duration
			more []string
		}{
			{0, []string{"acc_set set set on day 5, ends on 7"}},
			{3 * day, []string{"acc_earlier earlier earlier on day 8, ends on 15"}},
			{5 * day, []string{"acc_disabled disabled disabled on day 13, ends on 20", "acc_plain plain plain on day 13, ends on 20", "acc_rotated next rotated on day 13, ends on 20"}},
			{3 * day, nil},
			{12 * day, []string{"acc_later later later on day 28, ends on 35"}},
		} {
			time.Sleep(step.wait)
			for range 2 {
				run(nil)
			}
			want = append(want, step.more...)
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Fatalf("on day %d, got\n%s\nwant\n%s", time.Since(began)/day, strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		}
		rows, err := db.Scan(t.Context(), 100, book.Range{Space: book.EventSpace, From: "x ", To: "x!"})
		if must(t, err); len(rows[0]) > 0 {
			t.Errorf("%v are left", rows[0])
		}
	})
}
