package login

// NewSmall makes a Throttle with another capacity per table.
func NewSmall(journal Journal, capacity int) *Throttle {
	t := New(journal)
	t.capacity = capacity / shards
	return t
}

// Rows counts the rows of all tables.
func (t *Throttle) Rows() (clients, failures, known int) {
	for i := range shards {
		clients += len(t.clients[i].attempts.index)
		failures += len(t.accounts[i].failures.index)
		known += len(t.accounts[i].known.index)
	}
	return clients, failures, known
}

// SameBucket tells whether failures of both accounts count together.
func SameBucket(a, b Account) bool { return a.bucket == b.bucket }

// Tolerance is how far readings may lie behind.
const Tolerance = tolerance

// Dump returns all rows as they would be saved.
func (t *Throttle) Dump() map[string]string {
	rows := make(map[string]string)
	note := func(key rowKey) { rows[string(key.bytes())] = string(t.row(key).Value) }
	for i := range shards {
		for client := range t.clients[i].attempts.index {
			note(clientKey(client))
		}
		for account := range t.accounts[i].failures.index {
			note(failuresKey(account))
		}
		for account := range t.accounts[i].known.index {
			note(knownKey(account))
		}
	}
	return rows
}
