package ledger

import (
	"encoding/binary"
	"sync"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/token"
)

// tokenShards spreads the tokens over as many locks, and tokenPage is how
// many are allocated at a time.
const (
	tokenShards = 32
	tokenPage   = 64
)

// noToken ends the list of unused rows.
const noToken = ^uint32(0)

// tokens finds a live token by its hash.
type tokens struct {
	shards [tokenShards]tokenShard
}

type tokenShard struct {
	mu      sync.RWMutex
	index   index // by the first four bytes of the hash
	pages   []*[tokenPage]tokenRow
	count   uint32
	free    uint32 // head of the list of unused rows
	text    arena
	garbage int // bytes of text that no row uses
}

// tokenRow is one live token: 64 bytes, a line of the cache.
type tokenRow struct {
	hash      token.Hash
	expires   int64 // Unix nanoseconds; 0 never
	id        ref
	name      ref
	account   uint32 // of an unused row: the next such row
	abilities uint32
}

// Token is a live token as it is put into the ledger.
type Token struct {
	Hash      token.Hash
	Account   string
	ID        string
	Name      string
	Abilities string // sorted, separated by one space
	ExpiresAt time.Time
}

func (t *tokens) init() {
	for i := range t.shards {
		t.shards[i].free = noToken
	}
}

// shard returns the part of the table that a hash belongs to, and what it
// is under there. A hash is spread as evenly as can be by itself.
func (t *tokens) shard(h *token.Hash) (*tokenShard, uint32) {
	return &t.shards[h[8]%tokenShards], indexKey(h)
}

func indexKey(h *token.Hash) uint32 { return binary.BigEndian.Uint32(h[:4]) }

func (s *tokenShard) row(i uint32) *tokenRow { return &s.pages[i/tokenPage][i%tokenPage] }

// search returns the row of a hash and its number, or nil.
func (s *tokenShard) search(key uint32, h *token.Hash) (*tokenRow, uint32) {
	if s.count == 0 {
		return nil, 0
	}
	i, at, ok := s.index.next(key, s.index.first(key))
	for ; ok; i, at, ok = s.index.next(key, at) {
		if row := s.row(i); row.hash == *h {
			return row, i
		}
	}
	return nil, 0
}

// PutToken adds a live token, or changes the one with its hash, from the
// next call on.
func (l *Ledger) PutToken(t *Token) {
	s, key := l.tokens.shard(&t.Hash)
	account, abilities := l.accounts.number(t.Account), l.abilities.index(t.Abilities)
	s.mu.Lock()
	defer s.mu.Unlock()
	row, _ := s.search(key, &t.Hash)
	if row == nil {
		row = s.insert(key)
		row.hash = t.Hash
		row.id, row.name = s.text.add(t.ID), s.text.add(t.Name)
	}
	row.account, row.abilities = account, abilities
	row.expires = 0
	if !t.ExpiresAt.IsZero() {
		row.expires = t.ExpiresAt.UnixNano()
	}
}

func (s *tokenShard) insert(key uint32) *tokenRow {
	i := s.free
	if i != noToken {
		s.free = s.row(i).account
	} else {
		i = s.count
		s.count++
		if i%tokenPage == 0 {
			s.pages = append(s.pages, new([tokenPage]tokenRow))
		}
	}
	row := s.row(i)
	*row = tokenRow{}
	s.index.add(key, i)
	return row
}

// RemoveToken ends a token: it opens nothing from now on.
func (l *Ledger) RemoveToken(hash token.Hash) {
	s, key := l.tokens.shard(&hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remove(key, &hash)
	s.compact()
}

func (s *tokenShard) remove(key uint32, h *token.Hash) {
	row, i := s.search(key, h)
	if row == nil {
		return
	}
	s.index.remove(key, i)
	s.garbage += int(row.id.length) + int(row.name.length)
	*row = tokenRow{account: s.free}
	s.free = i
}

// compact copies the text of the live rows together once most of it is
// garbage, as the ids of yesterday's login tokens are. Readers keep the
// strings that they hold.
func (s *tokenShard) compact() {
	if s.garbage < chunkSize || s.garbage < s.text.size/2 {
		return
	}
	old := s.text
	s.text, s.garbage = arena{}, 0
	for i := range s.count {
		// The unused rows have no text.
		row := s.row(i)
		row.id, row.name = s.text.add(old.at(row.id)), s.text.add(old.at(row.name))
	}
}

// RemoveExpired forgets the tokens that have expired at now and returns
// how many there were. They open nothing either way; this frees memory.
func (l *Ledger) RemoveExpired(now time.Time) int {
	removed := 0
	for i := range l.tokens.shards {
		removed += l.tokens.shards[i].removeExpired(now.UnixNano())
	}
	return removed
}

func (s *tokenShard) removeExpired(now int64) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	var dead []token.Hash
	for i := range s.count {
		if row := s.row(i); row.expires != 0 && now >= row.expires {
			dead = append(dead, row.hash)
		}
	}
	for i := range dead {
		s.remove(indexKey(&dead[i]), &dead[i])
	}
	s.compact()
	return len(dead)
}
