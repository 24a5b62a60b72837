package e2e_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/e2e/stack"
)

// usageEvent is a CloudEvent of a feed.
type usageEvent struct {
	ID   string
	Time time.Time
	Data fedSums
}

type fedSums struct {
	Account, Endpoint, Day   string
	Calls, Credited, Overage int64
}

func (s fedSums) of() string { return s.Day + " " + s.Account + " " + s.Endpoint }

// meter receives a feed: it fails, delays, doubles, reorders, and is away.
type meter struct {
	mu     sync.Mutex
	away   bool
	calm   bool
	ids    map[string]usageEvent
	newest map[string]usageEvent
	late   []usageEvent
	posts  int
}

func (m *meter) serve(t *testing.T, w http.ResponseWriter, r *http.Request) {
	var events []usageEvent
	if err := json.NewDecoder(r.Body).Decode(&events); err != nil {
		return // the gate was killed
	}
	if got := r.Header.Get("Authorization"); got != "Bearer hush" {
		t.Errorf("got the authorization %q", got)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.posts++
	n := rand.IntN(8)
	switch {
	case m.calm:
		m.take(t, events)
	case m.away || n == 0:
		w.WriteHeader(http.StatusBadGateway)
	case n == 1: // taken, but the gate does not learn it
		m.take(t, events)
		panic(http.ErrAbortHandler)
	case n == 2: // twice, and behind later ones
		m.late = append(m.late, append(events, events...)...)
	default:
		m.take(t, events)
	}
}

func (m *meter) take(t *testing.T, events []usageEvent) {
	for _, e := range events {
		if before, found := m.ids[e.ID]; found && before != e {
			t.Errorf("a repeated message differs: %v, then %v", before, e)
		}
		m.ids[e.ID] = e
		if last, found := m.newest[e.Data.of()]; !found || e.Time.After(last.Time) {
			m.newest[e.Data.of()] = e
		}
	}
}

// differs compares the newest messages with the export of this month, summed up by
// account, endpoint and day.
func (m *meter) differs(t *testing.T, s *stack.Stack) error {
	plans := decode[api.Plans](t, s.Tollgate("plans", "--json"))
	want := map[string]fedSums{}
	for _, row := range decode[[]api.UsageCount](t, s.Tollgate("usage", "export", "--month", plans.Day[:len("2026-01")], "--format", "json")) {
		sum := fedSums{Account: row.Account, Endpoint: row.Endpoint, Day: row.Day}
		sum = want[sum.of()]
		want[fedSums{Account: row.Account, Endpoint: row.Endpoint, Day: row.Day}.of()] = fedSums{
			row.Account, row.Endpoint, row.Day, sum.Calls + row.Calls, sum.Credited + row.Credited, sum.Overage + row.Overage,
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	rand.Shuffle(len(m.late), func(i, j int) { m.late[i], m.late[j] = m.late[j], m.late[i] })
	m.take(t, m.late)
	m.late = nil
	if len(want) == 0 || len(want) > len(m.newest) {
		return fmt.Errorf("%d of %d sums arrived", len(m.newest), len(want))
	}
	for of, e := range m.newest {
		if got := e.Data; got.Day[:len("2026-01")] == plans.Day[:len("2026-01")] && got != want[of] && (got.Calls != 0 || want[of] != fedSums{}) {
			return fmt.Errorf("got %v at %v, want %v", got, e.Time, want[of])
		}
	}
	return nil
}

// TestFeed kills gates and their receiver fails, while there are calls above a soft
// limit, credits, top-ups, and accounts that are closed. At the end the newest
// messages are what the export has.
func TestFeed(t *testing.T) {
	t.Parallel()
	for _, store := range []string{"badger", "redis"} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			m := &meter{ids: map[string]usageEvent{}, newest: map[string]usageEvent{}}
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { m.serve(t, w, r) }))
			t.Cleanup(server.Close)
			options := []string{
				"rates 1000\n", "rates 5 day soft 1000\nrates 100000 total\n", "guard /api/\n",
				fmt.Sprintf("guard /api/\nfeed %s/events?key=hidden {\nformat cloudevents\ntoken hush\nevery 1s\n}\n", server.URL),
			}
			var all []*stack.Stack
			if store == "redis" {
				all = startGates(t, append(options, patient...)...).all
			} else {
				all = []*stack.Stack{stack.Start(t, stack.Shipped(t, options...))}
			}
			control, err := client.New(all[0].Control(), stack.Secret)
			must(t, err)
			const accounts = 12
			for round := range 4 {
				m.mu.Lock()
				m.away = round == 1
				m.mu.Unlock()
				var tokens []string
				for i := range accounts {
					account := fmt.Sprintf("acc_%d", i)
					_, err := control.PutAccount(t.Context(), account, api.AccountChange{Plan: new("starter")})
					must(t, err)
					key, err := control.CreateKey(t.Context(), account, api.KeyRequest{Name: fmt.Sprint(round)})
					must(t, err)
					tokens = append(tokens, key.Token)
				}
				callAll(all[len(all)-1], tokens, 8, func() {
					killed := all[round%len(all)]
					killed.KillCaddy()
					killed.StartCaddy()
				})
				for i := range accounts {
					account := fmt.Sprintf("acc_%d", i)
					switch i % 4 {
					case 0:
						_, err = control.Credit(t.Context(), account, api.CreditRequest{Endpoint: "rates", Calls: 2, ID: fmt.Sprint(round)})
					case 1:
						err = control.DeleteAccount(t.Context(), account)
					case 2:
						_, err = control.TopUp(t.Context(), account, api.TopUpRequest{Endpoint: "rates", Calls: 10, ID: fmt.Sprint(round)})
					case 3:
						err = control.ResetUsage(t.Context(), account, "", "")
					}
					if err != nil {
						t.Log(account, err) // as a credit of calls that are given back already
					}
				}
				callAll(all[0], tokens, 2, nil)
			}
			m.mu.Lock()
			m.calm = true
			m.mu.Unlock()
			for range 2 {
				eventually(t, "the sums of the export", func() error { return m.differs(t, all[0]) })
			}
			if fed := metric(t, all[0], `caddy_tollgate_feed_messages_total{outcome="refused"}`); fed != "0" {
				t.Errorf("%s messages were refused", fed)
			}
			for _, s := range all {
				for _, hidden := range []string{"hush", "hidden"} {
					if strings.Contains(s.Log(), hidden) {
						t.Errorf("the log has %q", hidden)
					}
				}
			}
		})
	}
}
