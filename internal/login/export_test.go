package login

import "time"

// NewSmallMemory returns a Memory with so many bytes for each class of cells.
func NewSmallMemory(now func() time.Time, journal Journal, bytes int) *Memory {
	m := NewMemory(now, journal)
	m.rows.most = [classes]int{bytes, bytes, bytes, bytes, bytes}
	return m
}

// SetSpareClock sets the clock of the limiter that decides during outages.
func (l *Limiter) SetSpareClock(now func() time.Time) { l.spare = New(NewMemory(now, nil)) }

// Len counts the cells of each class.
func (m *Memory) Len() (clients, failing, known int) {
	var n [classes]int
	for key := range m.rows.index {
		n[m.rows.row(key).class]++
	}
	return n[ClientClass], n[FreeClass] + n[WaitingClass], n[KnownClass]
}

// Used returns the most bytes that a class of cells uses.
func (m *Memory) Used() int {
	used := 0
	for _, bytes := range m.rows.used {
		used = max(used, bytes)
	}
	return used
}

// CountTogether returns whether failures of both accounts count together.
func CountTogether(a, b Account) bool { return a.group == b.group }

// Dump returns all rows as they would be saved.
func (m *Memory) Dump() map[string]string {
	saved := make(map[string]string)
	for key := range m.rows.index {
		row := m.rows.saved(key)
		saved[string(row.Key)] = string(row.Value)
	}
	return saved
}

// Waiting returns how many keys are kept beside the rows until the next save.
func (m *Memory) Waiting() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.behind.gone)
}
