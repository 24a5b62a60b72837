package login

import (
	"context"
	"slices"
	"sync"
	"time"
)

// saveEvery is how often the cells of addresses are saved, and savedTogether how
// many of them at a time: login attempts wait for that. mostGone bounds the cells
// that are deleted then. If there are more, they come back at the next start.
const (
	saveEvery     = time.Minute
	savedTogether = 1000
	mostGone      = 100_000
)

// behind says which cells of addresses are saved in the background. A call does not
// wait for the journal, and a crash loses what is not saved yet.
type behind struct {
	gone   []CellKey   // cells that only the journal has
	timer  *time.Timer // nil if no cell waits
	failed bool        // a row of before the last save waits
	closed bool
	saving sync.Mutex // not guarded by Memory.mu
}

// kept says whether the journal has the cell of an address.
type kept struct {
	before bool // it has the cell, or an earlier value
	waits  bool // it does not have this value
	brief  bool // it does not need this value: the cell ends before the next save
}

// changeAddress replaces the cell of an address, which is saved later. It evicts
// those that do not fit. The caller has locked m.mu.
func (m *Memory) changeAddress(key CellKey, change Change) {
	var now kept
	if before := m.rows.row(key); before != nil {
		now = before.kept
	}
	m.rows.change(key, change)
	if one := m.rows.row(key); one != nil {
		one.kept = kept{before: now.before, waits: true}
	} else if now.before {
		m.behind.gone = append(m.behind.gone, key)
	}
	m.behind.gone = append(m.behind.gone, m.rows.trimClass(AddressClass)...)
	m.behind.gone = m.behind.gone[:min(len(m.behind.gone), mostGone)]
	m.waitToSave()
}

func (m *Memory) waitToSave() {
	if m.journal != nil && !m.behind.closed && m.behind.timer == nil {
		m.behind.timer = time.AfterFunc(saveEvery, func() { _ = m.saveBehind() }) // after an error, it tries again
	}
}

// saveBehind saves the cells that wait, but before the close not those that end
// before the next time.
func (m *Memory) saveBehind() error {
	m.behind.saving.Lock()
	defer m.behind.saving.Unlock()
	keys := m.takeWaiting()
	for part := range slices.Chunk(keys, savedTogether) {
		err := m.Save(context.Background(), part...)
		m.mu.Lock()
		if err != nil {
			part, m.behind.failed = keys, true
			m.waitToSave()
		}
		for _, key := range part {
			if one := m.rows.row(key); one != nil {
				one.kept.before, one.kept.waits = true, one.kept.waits || err != nil
			}
		}
		m.mu.Unlock()
		if err != nil {
			return err
		}
	}
	return nil
}

// takeWaiting returns the cells to save now. The rows that changed last are the last
// of their queue.
func (m *Memory) takeWaiting() (keys []CellKey) {
	m.mu.Lock()
	defer m.mu.Unlock()
	b := &m.behind
	keys, b.gone, b.timer = b.gone, nil, nil
	soon := nanoseconds(m.now())
	if !b.closed {
		soon += int64(saveEvery)
	}
	for at := m.rows.queues[AddressClass].Back(); at != nil; at = at.Prev() {
		one := at.Value.(*row)
		if !one.kept.waits && !b.failed && !b.closed {
			break
		}
		if wanted := one.kept.waits || one.kept.brief && b.closed; !wanted {
			continue
		}
		one.kept.waits, one.kept.brief = false, one.expires <= soon
		if !one.kept.brief {
			keys = append(keys, one.key)
		}
	}
	b.failed = false
	return keys
}

// Close saves the cells that wait, while the journal is still open. It saves no
// later changes.
func (m *Memory) Close() error {
	m.mu.Lock()
	if m.behind.closed = true; m.behind.timer != nil {
		m.behind.timer.Stop()
	}
	m.mu.Unlock()
	if m.journal == nil {
		return nil
	}
	return m.saveBehind()
}
