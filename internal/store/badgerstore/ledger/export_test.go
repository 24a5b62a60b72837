package ledger

// PausesYields tells whether a leader has waited too long for other goroutines.
func (l *Ledger) PausesYields() bool {
	l.commits.mu.Lock()
	defer l.commits.mu.Unlock()
	return !l.commits.slow.IsZero()
}
