package caddymodule_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/book"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyevents"
	_ "github.com/caddyserver/caddy/v2/modules/caddyevents/eventsconfig"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/caddy-tollgate/tollgate/internal/feature/event"
)

// handled has what the event handlers of the tests got.
var handled struct {
	sync.Mutex
	events []string
	takes  time.Duration // how long the handler takes
}

// eventHandler is an event handler of the operator.
type eventHandler struct{}

func (*eventHandler) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "events.handlers.tollgate_test", New: func() caddy.Module { return new(eventHandler) }}
}

func (*eventHandler) UnmarshalCaddyfile(*caddyfile.Dispenser) error { return nil }

func (*eventHandler) Handle(ctx context.Context, e caddy.Event) error {
	handled.Lock()
	defer handled.Unlock()
	time.Sleep(handled.takes)
	text := ctx.Value(caddy.ReplacerCtxKey).(*caddy.Replacer).ReplaceAll("{event.data.account} {event.data.threshold}", "")
	handled.events = append(handled.events, e.Name()+" "+text)
	return nil
}

func init() { caddy.RegisterModule(new(eventHandler)) }

var _ caddyevents.Handler = (*eventHandler)(nil)

// TestEvents crosses a warning and a limit, also over a reload. The handler
// of the Caddyfile and the webhook get each event once.
func TestEvents(t *testing.T) {
	const key = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz"
	handled.events = nil
	verifier, err := standardwebhooks.NewWebhook(key)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	ids := map[string]int{}
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // an error fails the verification
		if err := verifier.Verify(body, r.Header); err != nil {
			t.Errorf("verifying %s: %v", body, err)
		}
		mu.Lock()
		defer mu.Unlock()
		ids[r.Header.Get("webhook-id")]++
	}))
	t.Cleanup(receiver.Close)
	s := start(t, setup{
		zone: calmZone(), global: "events {\n\ton tollgate.quota_exceeded tollgate_test\n\ton tollgate.quota_warning tollgate_test\n}",
		more: fmt.Sprintf("warn 80\nwebhook %s {\n\tsecret %s\n}", receiver.URL, key),
	})
	account, bearer := s.account(t, "small")
	for range 4 {
		for range 2 {
			s.get(t, "/api/convert/USD/1/EUR", bearer)
		}
		if err := s.reload(); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "both events", func() bool {
		mu.Lock()
		defer mu.Unlock()
		handled.Lock()
		defer handled.Unlock()
		return len(ids) == 2 && len(handled.events) == 2
	})
	want := []string{"tollgate.quota_warning " + account + " 80", "tollgate.quota_exceeded " + account + " 100"}
	for i := range want {
		if handled.events[i] != want[i] {
			t.Errorf("the handler got %q, want %q", handled.events, want)
		}
	}
}

// changeAccount changes an account with an entry in the audit log, and makes no
// event.
func changeAccount(t *testing.T, id string) {
	t.Helper()
	b, err := app(t).Book()
	if err != nil {
		t.Fatal(err)
	}
	err = b.ChangeOne(t.Context(), time.Now(), id, func(a *book.Account) error {
		a.Exists, a.CreatedAt = true, time.Now()
		a.Record(store.Entry{At: time.Now(), Action: api.AccountCreate, After: json.RawMessage("{}")})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestEventsOverReload: the events that wait for handlers when a configuration
// is replaced reach them.
func TestEventsOverReload(t *testing.T) {
	s := start(t, setup{zone: calmZone(), global: "events {\n\ton tollgate.account_changed tollgate_test\n}"})
	set := func(takes time.Duration) {
		handled.Lock()
		defer handled.Unlock()
		handled.events, handled.takes = nil, takes
	}
	set(50 * time.Millisecond)
	defer set(0)
	const changes = 10
	for i := range changes {
		changeAccount(t, fmt.Sprintf("acc_%d", i))
	}
	app(t).Follow()
	if err := s.reload(); err != nil {
		t.Fatal(err)
	}
	// Follow ends after a second: on a busy machine the new configuration gets
	// the others.
	eventually(t, "all events", func() bool {
		handled.Lock()
		defer handled.Unlock()
		return len(handled.events) == changes
	})
}

// TestFailedEventsOverReload: an event that the store did not take before a
// reload is stored after it, and the handlers of the new configuration get it.
func TestFailedEventsOverReload(t *testing.T) {
	c, s := newControlledCaddy(t), newTestStore(t, nil)
	var config object
	if err := json.Unmarshal(c.config(t, s.use(t, c.gateApp("starter"))), &config); err != nil {
		t.Fatal(err)
	}
	config["apps"].(object)["events"] = object{"subscriptions": []object{{
		"events": []string{event.AccountChanged}, "handlers": []object{{"handler": "tollgate_test"}},
	}}}
	text, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	load := func() {
		t.Helper()
		if err := caddy.Load(text, true); err != nil {
			t.Fatal(err)
		}
	}
	load()
	handled.Lock()
	handled.events = nil
	handled.Unlock()
	s.fail(errors.New("no space left on device"))
	changeAccount(t, "acc_1")
	app(t).Follow()
	load()
	s.mend()
	eventually(t, "the event", func() bool {
		handled.Lock()
		defer handled.Unlock()
		return len(handled.events) == 1
	})
}

// TestEventsOfTerms: the webhook gets the end of a plan and a key that expires
// soon, each once, also over a reload.
func TestEventsOfTerms(t *testing.T) {
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	var mu sync.Mutex
	posted := map[string]int{}
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // an error is another text
		var e struct {
			Type string
			Data map[string]string
		}
		err := json.Unmarshal(body, &e)
		mu.Lock()
		defer mu.Unlock()
		posted[fmt.Sprint(e.Type, e.Data, err)]++
	}))
	t.Cleanup(receiver.Close)
	c := newControlledCaddy(t)
	configuration := c.gateApp("small")
	configuration["webhook"] = object{
		"url": receiver.URL, "secret": "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz", "events": []string{event.PlanEnded, event.KeyExpiring},
	}
	reload := func() { check(c.load(t, configuration)) }
	reload()
	control, ctx := c.client(t, controlSecret), t.Context()
	end := time.Now().Add(5 * time.Second).UTC().Truncate(time.Second)
	expires := end.Add(6 * 24 * time.Hour)
	_, err := control.PutAccount(ctx, "acc_1", api.AccountChange{Plan: new("small"), PlanUntil: api.To(&end)})
	check(err)
	key, err := control.CreateKey(ctx, "acc_1", api.KeyRequest{Name: "ci"})
	check(err)
	b, err := app(t).Book()
	check(err)
	check(b.ChangeOne(ctx, time.Now(), "acc_1", func(a *book.Account) error {
		a.Find(key.ID).CreatedAt = time.Now().AddDate(0, -1, 0)
		return nil
	}))
	_, err = control.ChangeKey(ctx, "acc_1", key.ID, api.KeyChange{ExpiresAt: api.To(&expires)})
	check(err)
	eventually(t, "the end of the plan", func() bool { return time.Now().After(end) })
	for i := range 2 { // without a change, the gate writes the end within a minute
		_, err := control.PutAccount(ctx, "acc_1", api.AccountChange{Label: new(fmt.Sprint("label ", i))})
		check(err)
		reload()
	}
	want := map[string]int{
		fmt.Sprint(event.PlanEnded, map[string]string{"account": "acc_1", "plan": "small", "then": "free", "ended_at": end.Format(time.RFC3339)}, nil):     1,
		fmt.Sprint(event.KeyExpiring, map[string]string{"account": "acc_1", "key": key.ID, "name": "ci", "expires_at": expires.Format(time.RFC3339)}, nil): 1,
	}
	eventually(t, "both events", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(posted) == 2
	})
	mu.Lock()
	defer mu.Unlock()
	if !maps.Equal(posted, want) {
		t.Errorf("got %v, want %v", posted, want)
	}
}
