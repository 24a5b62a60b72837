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
	tokenPage   = 256
)

// noToken ends a list of rows.
const noToken = ^uint32(0)

// tokens finds a live token by its hash.
type tokens struct {
	shards [tokenShards]tokenShard
}

type tokenShard struct {
	mu sync.RWMutex
	// byHash leads from eight bytes of the hash to a row; rows that share
	// them follow each other through next.
	byHash  map[uint64]uint32
	pages   []*[tokenPage]tokenRow
	count   uint32
	free    uint32 // head of the list of unused rows
	text    arena
	garbage int // bytes of text that no row uses
}

// tokenRow is one live token: 72 bytes.
type tokenRow struct {
	hash      token.Hash
	expires   int64 // Unix nanoseconds; 0 never
	id        ref
	name      ref
	account   uint32
	abilities uint32
	next      uint32
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

// found is what a reader takes out of a row.
type found struct {
	id, name           string
	account, abilities uint32
	expires            int64
}

func (t *tokens) init() {
	for i := range t.shards {
		t.shards[i].byHash = make(map[uint64]uint32)
		t.shards[i].free = noToken
	}
}

func (t *tokens) shard(h *token.Hash) (*tokenShard, uint64) {
	return &t.shards[h[8]%tokenShards], binary.LittleEndian.Uint64(h[:8])
}

func (t *tokens) find(h *token.Hash) (found, bool) {
	s, key := t.shard(h)
	s.mu.RLock()
	defer s.mu.RUnlock()
	row, _ := s.search(key, h)
	if row == nil {
		return found{}, false
	}
	return found{
		id: s.text.at(row.id), name: s.text.at(row.name),
		account: row.account, abilities: row.abilities, expires: row.expires,
	}, true
}

func (s *tokenShard) row(i uint32) *tokenRow { return &s.pages[i/tokenPage][i%tokenPage] }

// search returns the row of a hash and the one before it in its list.
func (s *tokenShard) search(key uint64, h *token.Hash) (row, before *tokenRow) {
	i, ok := s.byHash[key]
	if !ok {
		return nil, nil
	}
	for ; i != noToken; i = row.next {
		if row = s.row(i); row.hash == *h {
			return row, before
		}
		before = row
	}
	return nil, nil
}

// PutToken adds a live token, or changes the one with its hash, from the
// next call on.
func (l *Ledger) PutToken(t *Token) {
	s, key := l.tokens.shard(&t.Hash)
	account, abilities := l.accounts.index(t.Account), l.abilities.index(t.Abilities)
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

func (s *tokenShard) insert(key uint64) *tokenRow {
	i := s.free
	if i != noToken {
		s.free = s.row(i).next
	} else {
		i = s.count
		s.count++
		if i%tokenPage == 0 {
			s.pages = append(s.pages, new([tokenPage]tokenRow))
		}
	}
	row := s.row(i)
	*row = tokenRow{next: noToken}
	if head, ok := s.byHash[key]; ok {
		row.next = head
	}
	s.byHash[key] = i
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

func (s *tokenShard) remove(key uint64, h *token.Hash) {
	row, before := s.search(key, h)
	if row == nil {
		return
	}
	var i uint32
	switch {
	case before != nil:
		i, before.next = before.next, row.next
	case row.next != noToken:
		i, s.byHash[key] = s.byHash[key], row.next
	default:
		i = s.byHash[key]
		delete(s.byHash, key)
	}
	s.garbage += int(row.id.length) + int(row.name.length)
	*row = tokenRow{next: s.free}
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
	for _, i := range s.byHash {
		for ; i != noToken; i = s.row(i).next {
			row := s.row(i)
			row.id, row.name = s.text.add(old.at(row.id)), s.text.add(old.at(row.name))
		}
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
		s.remove(binary.LittleEndian.Uint64(dead[i][:8]), &dead[i])
	}
	s.compact()
	return len(dead)
}
