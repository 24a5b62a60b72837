package login

import "sync"

// clientShard holds a part of the clients.
type clientShard struct {
	mu       sync.Mutex
	attempts table
}

// state reads a client. The caller holds the lock of the shard until it has
// saved the result.
func (s *clientShard) state(limits Limits, client Client, instant int64) *clientState {
	// The body is valid: appendTo wrote it or decode checked it.
	log, _ := readClientLog(s.attempts.get(clientRow(client).id))
	return newClientState(limits, log, instant)
}

func (s *clientShard) save(client Client, c *clientState) {
	s.attempts.put(clientRow(client).id, c.appendTo(nil), c.expires(), evictFirst)
}

// accountShard holds a part of the accounts. Failures and known clients are
// separate tables, so that no flood of failures evicts known clients.
type accountShard struct {
	mu       sync.Mutex
	failures table
	known    table
}

// state reads an account. The caller holds the lock of the shard until it
// has saved the result.
func (s *accountShard) state(limits Limits, account hash, client fingerprint, instant int64) *accountState {
	// The body is complete: appendTo wrote it or decode checked it.
	known, _ := readKnownClients(s.known.get(account))
	return newAccountState(limits, client, readFailures(s.failures.get(account)), known, instant)
}

// save writes the rows that changed. The others keep their place in the
// order of eviction.
func (s *accountShard) save(account hash, a *accountState) {
	if a.changed.failures {
		order := evictFirst
		if len(a.failures) >= a.limits.Free {
			order = evictLast
		}
		s.failures.put(account, a.failures.appendTo(nil), a.failuresExpire(), order)
	}
	if a.changed.known {
		s.known.put(account, a.known.appendTo(nil), a.knownExpire(), evictFirst)
	}
}
