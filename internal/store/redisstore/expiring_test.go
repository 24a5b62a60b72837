package redisstore_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/internal/feature/event"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
	"github.com/caddy-tollgate/tollgate/internal/store/redisstore"
	"github.com/caddy-tollgate/tollgate/internal/store/redisstore/redistest"
	"github.com/caddy-tollgate/tollgate/internal/token"
)

// TestEventsOfKeysThatExpire: of gates that look at once, one adds the event of each key that
// expires within a week. It needs no look at other accounts.
func TestEventsOfKeysThatExpire(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	gates := []*gate{openReady(t, redisstore.Options{URL: server.URL()}), openStore(t, redisstore.Options{URL: server.URL()})}
	const soon, late = 250, 20
	for i := range soon + late {
		now := gates[0].now()
		k := store.Key{ID: fmt.Sprint("key_", i), Kind: token.Key, Name: "ci", CreatedAt: now.AddDate(0, -1, 0), ExpiresAt: now.Add(6 * 24 * time.Hour)}
		if i >= soon {
			k.ExpiresAt = now.Add(8 * 24 * time.Hour)
		}
		check(t, gates[0].ChangeOne(t.Context(), now, fmt.Sprint("acc_", i), func(a *book.Account) error {
			a.Exists = true
			a.Record(store.Entry{At: now, Action: api.KeyCreate, Target: k.ID, After: fmt.Appendf(nil, `{"created_at":%q,"expires_at":%q}`,
				k.CreatedAt.Format(time.RFC3339Nano), k.ExpiresAt.Format(time.RFC3339Nano))})
			return a.Create(book.Key{Key: k, Hash: token.Foreign(a.ID)})
		}))
	}
	var mu sync.Mutex
	var looking sync.WaitGroup
	added := map[string]int{}
	for i := range 2 * len(gates) {
		looking.Go(func() {
			queue := event.NewQueue(gates[i%len(gates)].Book)
			for more := true; more; {
				var err error
				_, more, err = queue.Follow(t.Context(), time.Time{}, func(store.Entry) []store.Event { return nil })
				check(t, err)
			}
			for more := true; more; {
				list, left, err := queue.Expiring(t.Context(), i%2 == 0)
				check(t, err)
				mu.Lock()
				for _, e := range list {
					added[fmt.Sprint(e.Type, " ", e.Data["account"], " ", e.Data["key"])]++
				}
				mu.Unlock()
				more = left
			}
		})
	}
	looking.Wait()
	for i := range soon {
		if name := fmt.Sprintf("%s acc_%d key_%d", event.KeyExpiring, i, i); added[name] != 1 {
			t.Errorf("%s was added %d times", name, added[name])
		}
	}
	if len(added) != soon {
		t.Errorf("%d events, want %d", len(added), soon)
	}
	rows, err := gates[0].Scan(t.Context(), 2*late, book.Range{Space: book.EventSpace, From: "x ", To: "x!"})
	if check(t, err); len(rows[0]) != late {
		t.Errorf("%d keys are left, want %d", len(rows[0]), late)
	}
}
