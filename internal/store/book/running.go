package book

import (
	"context"
	"sync"

	"github.com/caddy-tollgate/tollgate/internal/store"
)

// running is a store.Concurrency in memory, for an engine of one process.
type running struct {
	mu    sync.Mutex
	calls map[list]int64 // none is 0
}

type list struct{ account, name string }

// concurrencyOf returns the engine, if several processes share it.
func concurrencyOf(e Engine) store.Concurrency {
	if shared, ok := e.(store.Concurrency); ok {
		return shared
	}
	return &running{calls: map[list]int64{}}
}

// Enter implements store.Concurrency.
func (r *running) Enter(_ context.Context, account string, lists []string, most []int64, n int64) (now []int64, leave func(), err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now = r.count(account, lists)
	for i := range now {
		if now[i]+n > most[i] {
			return now, nil, nil
		}
	}
	for i, name := range lists {
		now[i] += n
		r.calls[list{account, name}] = now[i]
	}
	return now, func() { r.leave(account, lists, n) }, nil
}

func (r *running) leave(account string, lists []string, n int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, name := range lists {
		of := list{account, name}
		if r.calls[of] -= n; r.calls[of] == 0 {
			delete(r.calls, of)
		}
	}
}

// Running implements store.Concurrency.
func (r *running) Running(_ context.Context, account string, lists []string) ([]int64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.count(account, lists), nil
}

func (r *running) count(account string, lists []string) []int64 {
	now := make([]int64, len(lists))
	for i, name := range lists {
		now[i] = r.calls[list{account, name}]
	}
	return now
}
