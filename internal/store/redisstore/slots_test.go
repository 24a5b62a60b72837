package redisstore_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/redisstore"
	"github.com/caddy-tollgate/tollgate/internal/store/redisstore/redistest"
)

// TestAbandonedCallsCount: a call without a client that waits counts as in
// flight until its connection is closed. It is in the queue of the connection
// that long.
func TestAbandonedCallsCount(t *testing.T) {
	t.Parallel()
	proxy := redistest.StartProxy(t, redistest.Start(t).Addr())
	const most = 8
	s := openReady(t, redisstore.Options{URL: "redis://" + proxy.Addr(), Timeout: 3 * time.Second, InFlight: most})
	proxy.Stall()
	all := func() []error {
		errs := make([]error, most)
		var calls sync.WaitGroup
		for i := range most {
			calls.Go(func() { errs[i] = takeOne(t, s) })
		}
		calls.Wait()
		return errs
	}
	for _, err := range all() {
		if !errors.Is(err, store.ErrUnknown) {
			t.Errorf("a call to a network that delivers nothing: got %v, want %v", err, store.ErrUnknown)
		}
	}
	waiting := fmt.Sprintf("%d requests are waiting", most)
	for range 3 {
		if err := takeOne(t, s); err == nil || errors.Is(err, store.ErrUnknown) || !strings.Contains(err.Error(), waiting) {
			t.Errorf("a call after those without a client: got %v, want that %s", err, waiting)
		}
	}
	check(t, proxy.Resume())
	await(t, "all places", func() bool { return errors.Join(all()...) == nil })
}

// TestManyRecentCalls: calls of more accounts than are written at once are all
// written.
func TestManyRecentCalls(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := openStore(t, redisstore.Options{URL: server.URL()})
	ids := make([]string, 500)
	for i := range ids {
		ids[i] = fmt.Sprintf("acc_%d", i)
	}
	_, errs := s.ChangeAccounts(t.Context(), ids, func(int, *store.Account, bool) error { return nil })
	check(t, errors.Join(errs...))
	for _, id := range ids {
		s.Record(store.Record{Account: id, At: time.Now(), Endpoint: "convert"})
	}
	check(t, s.Close())
	if got := len(keysOf(t, server, "*:s:n")); got != len(ids) {
		t.Errorf("%d accounts have recent calls, want %d", got, len(ids))
	}
}
