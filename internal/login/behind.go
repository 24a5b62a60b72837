package login

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"
)

// saveEvery is how often the cells of addresses are saved, and savedTogether how
// many of them at a time: login attempts wait for that.
const (
	saveEvery     = time.Minute
	savedTogether = 1000
)

// behind are the cells of addresses that are saved in the background. A call does
// not wait for the journal, and a crash loses what is not saved yet.
type behind struct {
	keys   map[CellKey]struct{}
	timer  *time.Timer // nil if no cell waits
	closed bool
	saving sync.Mutex // not guarded by Memory.mu
}

// saveLater evicts the cells of addresses that do not fit, and saves these and
// a changed one in the background. The caller has locked m.mu.
func (m *Memory) saveLater(key CellKey) {
	evicted := m.rows.trimClass(AddressClass)
	m.wait(append(evicted, key)...)
}

func (m *Memory) wait(keys ...CellKey) {
	if m.journal == nil || m.behind.closed {
		return
	}
	if m.behind.timer == nil {
		m.behind.keys = map[CellKey]struct{}{}
		m.behind.timer = time.AfterFunc(saveEvery, func() { _ = m.saveBehind() }) // after an error, it tries again
	}
	for _, key := range keys {
		m.behind.keys[key] = struct{}{}
	}
}

// saveBehind saves the cells that wait, but not those that end before the next
// time.
func (m *Memory) saveBehind() error {
	m.behind.saving.Lock()
	defer m.behind.saving.Unlock()
	m.mu.Lock()
	soon := m.now()
	if !m.behind.closed {
		soon = soon.Add(saveEvery)
	}
	keys := slices.DeleteFunc(slices.Collect(maps.Keys(m.behind.keys)), func(key CellKey) bool {
		one := m.rows.row(key)
		return one != nil && one.expires <= nanoseconds(soon)
	})
	m.behind.keys, m.behind.timer = nil, nil
	m.mu.Unlock()
	for part := range slices.Chunk(keys, savedTogether) {
		if err := m.Save(context.Background(), part...); err != nil {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.wait(keys...)
			return err
		}
	}
	return nil
}

// Close saves the cells that wait, while the journal is still open. It saves no
// later changes.
func (m *Memory) Close() error {
	m.mu.Lock()
	m.behind.closed = true
	m.mu.Unlock()
	return m.saveBehind()
}
