package ledger

import (
	"encoding/binary"
	"math"
	"math/bits"
	"sync"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/token"
)

// tokenShards spreads the tokens over as many locks, and minTokens is the
// size of a shard's smallest table.
const (
	tokenShards = 32
	minTokens   = 8
)

// tokens finds a token by its hash: a live one, or one that ended not long ago.
type tokens struct {
	shards [tokenShards]tokenShard
}

// tokenShard is a flat table with linear probing. The rows are the tokens
// themselves, 85 to 171 bytes for each, so that a look-up reads one place in
// memory, or some that are next to each other.
type tokenShard struct {
	mu      sync.RWMutex
	rows    []tokenRow // none, or a power of two of them
	shift   uint8      // of an index key, to find its home
	used    int
	text    arena
	garbage int // bytes of text that no row uses
	// restrictions has those of the few keys that have one.
	restrictions map[token.Hash]*store.Restriction
}

// tokenRow is one token: 64 bytes, a line of the cache.
type tokenRow struct {
	hash      token.Hash
	expires   int64 // Unix nanoseconds; 0 never
	id        ref
	name      ref
	owner     uint32 // the account's number plus 1; 0 in a row without a token
	abilities uint32 // or revoked
}

// revoked stands for the abilities of a revoked token.
const revoked = math.MaxUint32

// live tells whether the token is neither revoked nor expired at now, in Unix
// nanoseconds.
func (r *tokenRow) live(now int64) bool { return r.abilities != revoked && !r.expired(now) }

// expired tells whether the token has expired at now, in Unix nanoseconds.
func (r *tokenRow) expired(now int64) bool { return r.expires != 0 && now >= r.expires }

// Token is a token as it is put into the ledger.
type Token struct {
	Hash      token.Hash
	Account   string
	ID        string
	Name      string
	Abilities string // sorted, separated by one space
	// ExpiresAt is zero for a token that never expires. The ledger knows a
	// revoked token until then.
	ExpiresAt time.Time
	Revoked   bool
	// Restriction is nil for a key without one.
	Restriction *store.Restriction
}

// shard returns the shard of a hash and its key there. A hash is evenly
// distributed, so a part of it serves as the key.
func (t *tokens) shard(h *token.Hash) (*tokenShard, uint32) {
	return &t.shards[h[8]%tokenShards], indexKey(h)
}

func indexKey(h *token.Hash) uint32 { return binary.BigEndian.Uint32(h[:4]) }

// home is where the search for a key begins.
func (s *tokenShard) home(key uint32) uint32 { return key >> (s.shift & 31) }

// row is the row at a place; behind the last comes the first.
func (s *tokenShard) row(at uint32) *tokenRow { return &s.rows[at&uint32(len(s.rows)-1)] }

// search returns the place of a hash and whether it is there. If it is not,
// the place is free for it, unless the table is empty.
func (s *tokenShard) search(key uint32, h *token.Hash) (at uint32, found bool) {
	if len(s.rows) == 0 {
		return 0, false
	}
	for at = s.home(key); ; at++ {
		switch row := s.row(at); {
		case row.owner == 0:
			return at, false
		case row.hash == *h:
			return at, true
		}
	}
}

// PutToken adds a token, or changes the one with its hash, from the next call
// on.
func (l *Ledger) PutToken(t *Token) { l.putToken(t, false) }

// LoadToken is PutToken when the store opens. Of several keys with one token it
// keeps one that is not revoked, and of these the one that expires last: the
// others had ended before that one was created.
func (l *Ledger) LoadToken(t *Token) { l.putToken(t, true) }

func (l *Ledger) putToken(t *Token, unlessLonger bool) {
	s, key := l.tokens.shard(&t.Hash)
	account, abilities := l.accounts.number(t.Account), uint32(revoked)
	if !t.Revoked {
		abilities = l.abilities.index(t.Abilities)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.used*4 >= len(s.rows)*3 {
		s.grow()
	}
	at, found := s.search(key, &t.Hash)
	row, expires := s.row(at), int64(0)
	if !t.ExpiresAt.IsZero() {
		expires = t.ExpiresAt.UnixNano()
	}
	longer := row.abilities == revoked || row.expires != 0 && (expires == 0 || expires > row.expires)
	if found && unlessLonger && (t.Revoked || !longer) {
		return
	}
	if !found {
		s.used++
		row.hash = t.Hash
		row.id, row.name = s.text.add(t.ID), s.text.add(t.Name)
	} else {
		s.rewrite(&row.id, t.ID)
		s.rewrite(&row.name, t.Name)
	}
	s.restrict(t)
	row.owner, row.abilities, row.expires = account+1, abilities, expires
}

// rewrite changes a text of a row.
func (s *tokenShard) rewrite(at *ref, text string) {
	if s.text.at(*at) != text {
		s.garbage += int(at.length)
		*at = s.text.add(text)
	}
}

// restrict sets the restriction of a token.
func (s *tokenShard) restrict(t *Token) {
	switch {
	case t.Restriction == nil:
		delete(s.restrictions, t.Hash)
		return
	case s.restrictions == nil:
		s.restrictions = map[token.Hash]*store.Restriction{}
	}
	s.restrictions[t.Hash] = t.Restriction
}

// grow doubles the table. At a million tokens it holds the shard's lock for
// one or two milliseconds.
func (s *tokenShard) grow() {
	old := s.rows
	s.rows = make([]tokenRow, max(minTokens, 2*len(old)))
	s.shift = uint8(32 - bits.TrailingZeros(uint(len(s.rows))))
	for i := range old {
		if old[i].owner != 0 {
			at, _ := s.search(indexKey(&old[i].hash), &old[i].hash)
			*s.row(at) = old[i]
		}
	}
}

// AccountOfToken returns the account of a token that is live at now, also if the
// account is disabled or is being deleted.
func (l *Ledger) AccountOfToken(hash *token.Hash, now time.Time) (account string, found bool) {
	s, key := l.tokens.shard(hash)
	s.mu.RLock()
	defer s.mu.RUnlock()
	at, found := s.search(key, hash)
	if !found || !s.row(at).live(now.UnixNano()) {
		return "", false
	}
	return l.accounts.at(s.row(at).owner - 1).id, true
}

// EndToken ends the token of a key: it opens nothing from now on. The ledger
// still knows it if it is Revoked, and otherwise forgets it. EndToken does
// nothing if the token belongs to another key meanwhile.
func (l *Ledger) EndToken(t *Token) {
	number, known := l.accounts.find(t.Account)
	s, key := l.tokens.shard(&t.Hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	at, found := s.search(key, &t.Hash)
	if !known || !found || s.row(at).owner != number+1 || s.text.at(s.row(at).id) != t.ID {
		return
	}
	if t.Revoked {
		row := s.row(at)
		s.rewrite(&row.name, "")
		delete(s.restrictions, t.Hash)
		row.abilities, row.expires = revoked, t.ExpiresAt.UnixNano()
	} else {
		s.remove(key, &t.Hash)
	}
	s.compact()
}

// remove deletes a token from the table. The rows behind it move up if their
// home allows, so that no search ends too early.
func (s *tokenShard) remove(key uint32, h *token.Hash) {
	hole, found := s.search(key, h)
	if !found {
		return
	}
	delete(s.restrictions, *h)
	gone, last := s.row(hole), uint32(len(s.rows)-1)
	s.garbage += int(gone.id.length) + int(gone.name.length)
	s.used--
	for at := hole + 1; s.row(at).owner != 0; at++ {
		if home := s.home(indexKey(&s.row(at).hash)); (at-home)&last >= (at-hole)&last {
			*s.row(hole) = *s.row(at)
			hole = at
		}
	}
	*s.row(hole) = tokenRow{}
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
	for i := range s.rows {
		if row := &s.rows[i]; row.owner != 0 {
			row.id, row.name = s.text.add(old.at(row.id)), s.text.add(old.at(row.name))
		}
	}
}

// LiveTokens returns how many tokens are live at now. It reads a
// table without pointers, 64 bytes for each token.
func (l *Ledger) LiveTokens(now time.Time) (live int) {
	for i := range l.tokens.shards {
		live += l.tokens.shards[i].live(now.UnixNano())
	}
	return live
}

func (s *tokenShard) live(now int64) (live int) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for i := range s.rows {
		if row := &s.rows[i]; row.owner != 0 && row.live(now) {
			live++
		}
	}
	return live
}

// RemoveExpired forgets the tokens whose ExpiresAt is not after now and returns
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
	for i := range s.rows {
		if row := &s.rows[i]; row.expired(now) {
			dead = append(dead, row.hash)
		}
	}
	for i := range dead {
		s.remove(indexKey(&dead[i]), &dead[i])
	}
	s.compact()
	return len(dead)
}
