package login

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// Journal keeps the rows of a Local over restarts.
type Journal interface {
	// Save writes the rows, replacing older ones of the same key. It
	// returns when the rows survive the end of the process. Keys are
	// unique within a call. Local calls Save from one goroutine at a time,
	// with a context that is never done: Save limits its own time. After
	// an error, any of the rows may have been written.
	Save(ctx context.Context, rows []Row) error

	// LoadAttempts calls fn with each row that has not expired, in any
	// order, until fn returns an error, and returns that error. Key and
	// value are valid during the call only.
	LoadAttempts(ctx context.Context, fn func(key, value []byte) error) error
}

// Row is a row of a Journal.
type Row struct {
	// Key is 17 bytes long.
	Key []byte
	// Value is nil if the row is to be deleted.
	Value []byte
	// ExpiresAt is when the journal can delete the row. It is zero if
	// Value is nil.
	ExpiresAt time.Time
}

// errJournalPanic is the error of a batch whose Save panics.
var errJournalPanic = errors.New("journal panicked")

// commits is the group commit. A caller that finds no open batch opens one
// and commits it for all callers that join meanwhile. The rows are read when
// the batch begins to be saved, so no batch overwrites newer rows.
type commits struct {
	journal Journal
	read    func(rowKey) Row

	saving sync.Mutex // held while a batch is saved
	mu     sync.Mutex // guards the following
	open   *batch     // takes keys until it begins to be saved
	later  []rowKey   // saved with the next batch
}

type batch struct {
	keys []rowKey
	done chan struct{}
	err  error // read after done
}

// save saves the rows as they are now, or newer, and returns when that is
// done.
func (c *commits) save(ctx context.Context, keys ...rowKey) error {
	if c.journal == nil {
		return nil
	}
	c.mu.Lock()
	b := c.open
	leads := b == nil
	if leads {
		b = &batch{done: make(chan struct{})}
		c.open = b
	}
	b.keys = append(b.keys, keys...)
	c.mu.Unlock()
	if leads {
		c.commit(context.WithoutCancel(ctx), b)
	}
	<-b.done
	return b.err
}

func (c *commits) commit(ctx context.Context, b *batch) {
	c.saving.Lock()
	defer c.saving.Unlock()
	defer close(b.done)
	c.mu.Lock()
	c.open = nil
	keys := slices.Concat(b.keys, c.later)
	c.later = nil
	c.mu.Unlock()
	rows := make([]Row, 0, len(keys))
	read := make(map[rowKey]bool, len(keys))
	for _, key := range keys {
		if !read[key] {
			read[key] = true
			rows = append(rows, c.read(key))
		}
	}
	b.err = errJournalPanic
	b.err = c.journal.Save(ctx, rows)
}

// saveLater saves evicted rows with the next batch. If that fails, the rows
// come back at the next start.
func (c *commits) saveLater(keys []rowKey) {
	if c.journal == nil || len(keys) == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.later = append(c.later, keys...)
}
