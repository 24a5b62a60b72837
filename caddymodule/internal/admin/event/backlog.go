package event

import (
	"container/list"
	"context"
	"sync"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/store"
)

const (
	// again is how long a Backlog waits between two tries.
	again = time.Second

	// closing bounds Close.
	closing = 5 * time.Second
)

// Backlog keeps the events that a store did not take, and tries again until it
// does. It belongs to an open store, so that events survive a reload. The zero
// Backlog is ready. It is safe for concurrent use.
type Backlog struct {
	mu     sync.Mutex
	list   list.List   // of late, the oldest first
	timer  *time.Timer // of the next try; nil if there is none
	closed bool

	storing sync.Mutex // held to store
}

// late is an event that is not stored yet.
type late struct {
	message

	emitter *Emitter
}

// add keeps an event.
func (b *Backlog) add(l late) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.keep(l, b.list.PushBack)
}

// keep puts an event into the list. If too many wait, it drops the oldest. The
// caller holds mu.
func (b *Backlog) keep(l late, put func(any) *list.Element) {
	if b.closed {
		l.emitter.lost(l.message)
		return
	}
	put(l)
	if b.list.Len() > store.MaxQueued {
		oldest := b.list.Remove(b.list.Front()).(late)
		oldest.emitter.lost(oldest.message)
	}
	if b.timer == nil {
		b.timer = time.AfterFunc(again, b.flush)
	}
}

// take removes the oldest event. Without one, the next add starts the timer.
func (b *Backlog) take() (oldest late, found bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	front := b.list.Front()
	if front == nil {
		b.timer = nil
		return late{}, false
	}
	return b.list.Remove(front).(late), true
}

// flush stores events until one fails.
func (b *Backlog) flush() {
	b.storing.Lock()
	defer b.storing.Unlock()
	for l, found := b.take(); found; l, found = b.take() {
		if !l.emitter.store(context.Background(), l.message, storingAtMost) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.timer = nil
			b.keep(l, b.list.PushFront)
			return
		}
	}
}

// Close stores the events that wait, before their store is closed. It does not
// wait for a store that hangs. Events that are left, and later ones, are
// dropped.
func (b *Backlog) Close() {
	b.mu.Lock()
	b.closed = true
	if b.timer != nil {
		b.timer.Stop()
	}
	b.mu.Unlock()
	flushed := make(chan struct{})
	go func() {
		b.flush()
		close(flushed)
	}()
	select {
	case <-flushed:
	case <-time.After(closing):
	}
	for l, found := b.take(); found; l, found = b.take() {
		l.emitter.lost(l.message)
	}
}
