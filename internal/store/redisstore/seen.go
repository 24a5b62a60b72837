package redisstore

import (
	"maps"
	"sync"
)

// callCounters is how many counters of a holder a call adds to: those of the
// endpoint and of all endpoints, on the day and in the month.
const callCounters = 4

// seenKey is the holder of counts: an account, or one of its keys. Those of totals
// are apart: they have a month of their own.
type seenKey struct {
	account, key string
	total        bool
}

// seen has the highest counts that this gate has seen of a holder, in one month.
// A server that lost writes in a failover continues from them.
type seen struct {
	mu         sync.Mutex
	handle     uint64 // of the account
	month      string
	day        string
	generation int64
	counts     map[string]int64 // by field of the hash
}

// seenOf returns what was seen of a holder. It is empty for another account of
// that id, and for another month.
func (s *Store) seenOf(key seenKey) *seen {
	if found, ok := s.seen.Get(key); ok {
		return found
	}
	made := &seen{}
	if other, ok, _ := s.seen.PeekOrAdd(key, made); ok {
		return other
	}
	return made
}

// follow forgets the counts of another account, and those before a month or a
// day. It tells whether the day is the latest: a call of an earlier one that is
// settled late must not make the gate forget today.
func (s *seen) follow(handle uint64, month, day string) (latest bool) {
	switch {
	case s.handle != handle || s.month < month:
		s.generation, s.counts = 0, map[string]int64{}
	case s.month > month || s.day > day:
		return false
	case s.day < day:
		maps.DeleteFunc(s.counts, func(field string, _ int64) bool { return isOfDay(field) })
	}
	s.handle, s.month, s.day = handle, month, day
	return true
}

// isOfDay tells a counter of a day from one of the month.
func isOfDay(field string) bool { return len(field) > 3 && field[2] == ':' }

// read returns the generation and the counts of fields.
func (s *seen) read(handle uint64, month, day string, fields *[callCounters]string) (generation int64, counts [callCounters]int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.follow(handle, month, day) {
		return 0, counts
	}
	for i, field := range fields {
		counts[i] = s.counts[field]
	}
	return s.generation, counts
}

// note keeps counts. A greater generation may have lower counts and replaces all
// of them. A smaller one is from before that.
func (s *seen) note(handle uint64, month, day string, generation int64, fields *[callCounters]string, counts [callCounters]int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.follow(handle, month, day) || generation < s.generation {
		return
	}
	if generation > s.generation {
		s.generation, s.counts = generation, map[string]int64{}
	}
	for i, field := range fields {
		s.counts[field] = max(s.counts[field], counts[i])
	}
}
