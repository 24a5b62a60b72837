package storetest

import (
	"slices"
	"sync/atomic"

	"github.com/caddy-tollgate/tollgate/internal/store"
)

// running: of many calls at once, never more run than each list admits, a call is
// in all of its lists or in none, and none remains.
func (s *suite) running() {
	const callers, mostOfChat, mostOfAll = 64, 3, 5
	lists := func(endpoint string) []string { return []string{endpoint, store.All} }
	most := map[string]int64{"chat": mostOfChat, "rates": mostOfAll}
	var all, chat, entered atomic.Int64
	now := map[string]*atomic.Int64{"chat": &chat, "rates": new(atomic.Int64)}
	s.together(callers, func(i int) error {
		endpoint := []string{"chat", "rates"}[i%2]
		for range 20 {
			running, leave, err := s.store.Enter(s.Context(), "acc_1", lists(endpoint), []int64{most[endpoint], mostOfAll}, 1)
			if err != nil {
				return err
			}
			if running[0] > most[endpoint] || running[1] > mostOfAll {
				s.Errorf("got %d calls to %s, %d in all", running[0], endpoint, running[1])
			}
			if leave == nil {
				if running[0] < most[endpoint] && running[1] < mostOfAll {
					s.Errorf("refused a call to %s with %v calls that run", endpoint, running)
				}
				continue
			}
			entered.Add(1)
			if n, together := now[endpoint].Add(1), all.Add(1); n > most[endpoint] || together > mostOfAll {
				s.Errorf("%d calls to %s run, %d in all", n, endpoint, together)
			}
			now[endpoint].Add(-1)
			all.Add(-1)
			leave()
		}
		return nil
	})
	if entered.Load() == 0 {
		s.Error("no call was admitted")
	}
	want := func(want ...int64) {
		s.Helper()
		got, err := s.store.Running(s.Context(), "acc_1", []string{"chat", "rates", store.All})
		if s.must(err); !slices.Equal(got, want) {
			s.Errorf("got %v calls, want %v", got, want)
		}
	}
	want(0, 0, 0)
	enter := func(account, endpoint string, n int64) func() {
		_, leave, err := s.store.Enter(s.Context(), account, lists(endpoint), []int64{mostOfChat, mostOfAll}, n)
		s.must(err)
		return leave
	}
	var leave []func()
	for range mostOfChat {
		leave = append(leave, enter("acc_1", "chat", 1))
	}
	if enter("acc_1", "chat", 1) != nil {
		s.Error("a call too many to chat was admitted")
	}
	want(mostOfChat, 0, mostOfChat) // all or nothing
	for range mostOfAll - mostOfChat {
		leave = append(leave, enter("acc_1", "rates", 1))
	}
	if enter("acc_1", "rates", 1) != nil {
		s.Error("a call too many was admitted")
	}
	want(mostOfChat, mostOfAll-mostOfChat, mostOfAll)
	leave = append(leave, enter("acc_2", "chat", 1)) // another account
	for _, end := range leave {
		end()
	}
	want(0, 0, 0)
	batch := enter("acc_1", "chat", mostOfChat-1)
	want(mostOfChat-1, 0, mostOfChat-1)
	if enter("acc_1", "chat", 2) != nil {
		s.Error("a batch with a call too many was admitted")
	}
	one := enter("acc_1", "chat", 1)
	batch()
	want(1, 0, 1)
	one()
	want(0, 0, 0)
}
