package caddymodule_test

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule"
	"github.com/caddy-tollgate/tollgate/internal/calendar"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
	"github.com/caddy-tollgate/tollgate/internal/store/memstore"
	"github.com/caddy-tollgate/tollgate/internal/store/storetest"
)

// TestFeedOfAnotherStore: a store that a reload has replaced, and that calls in
// flight keep open, is not fed any more.
func TestFeedOfAnotherStore(t *testing.T) {
	var posts atomic.Int64
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // an error is another text
		if strings.Contains(string(body), "acc_before") {
			t.Errorf("got %s", body)
		}
		posts.Add(1)
	}))
	t.Cleanup(receiver.Close)
	c := newControlledCaddy(t)
	configuration := c.gateApp("small")
	configuration["feed"] = object{"url": receiver.URL, "format": "cloudevents", "every": "1s"}
	if err := c.load(t, configuration); err != nil {
		t.Fatal(err)
	}
	call := func(b *book.Book, account string) {
		t.Helper()
		call := store.Call{Account: account, Endpoint: "convert", Day: calendar.In(time.UTC).At(time.Now()).Day, At: time.Now(), Cost: 1}
		_, err := storetest.PutAccount(t.Context(), b, store.Account{ID: account, Plan: "small"})
		if err == nil {
			_, err = b.Take(t.Context(), call, nil, nil)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	before := book.New(memstore.New(), slog.New(slog.DiscardHandler))
	call(before, "acc_before")
	old := caddymodule.Attach(before)
	defer old.Refused.Close()
	defer old.Events.Close()
	defer old.Feed.Close()
	b, err := app(t).Book()
	if err != nil {
		t.Fatal(err)
	}
	for n := range int64(3) {
		call(b, "acc_after")
		eventually(t, "a post", func() bool { return posts.Load() > n })
	}
}
