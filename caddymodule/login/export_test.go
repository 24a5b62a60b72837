package login

// NewSmallLocal returns a Local with another capacity per table.
func NewSmallLocal(journal Journal, capacity int) *Local {
	l := NewLocal(journal)
	l.capacity = capacity / shards
	return l
}

// Rows counts the rows of all tables.
func (l *Local) Rows() (clients, failures, known int) {
	for i := range shards {
		clients += len(l.clients[i].attempts.index)
		failures += len(l.accounts[i].failures.index)
		known += len(l.accounts[i].known.index)
	}
	return clients, failures, known
}

// CountTogether tells whether failures of both accounts count together.
func CountTogether(a, b Account) bool { return a.group == b.group }

// Tolerance is how far readings may lie behind.
const Tolerance = tolerance

// Dump returns all rows as they would be saved.
func (l *Local) Dump() map[string]string {
	rows := make(map[string]string)
	add := func(name byte, t *table) {
		for id := range t.index {
			key := rowKey{name, id}
			rows[string(key.bytes())] = string(l.row(key).Value)
		}
	}
	for i := range shards {
		add(clientsTable, &l.clients[i].attempts)
		add(failuresTable, &l.accounts[i].failures)
		add(knownTable, &l.accounts[i].known)
	}
	return rows
}
