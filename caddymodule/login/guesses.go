package login

import (
	"bytes"
	"encoding/binary"
	"hash/maphash"
	"sync"
	"time"
)

// A client may send maxGuesses unknown tokens in any guessWindow.
const (
	maxGuesses  = 20
	guessWindow = time.Minute
)

const (
	// acceptedFor is how long a client is known to have a token since the
	// token was accepted from it.
	acceptedFor = 7 * 24 * time.Hour
	// acceptedAgain is how often the acceptance is noted again: not at each
	// call.
	acceptedAgain = time.Hour
	// maxAccepted is how many tokens are remembered. Each has at most maxKnown
	// clients, so all take at most 40 MiB.
	maxAccepted = 1 << 16
)

// Guesses limits how many unknown tokens a client sends: 20 in any minute. A
// token that was accepted from the client in the last 7 days need not wait:
// otherwise one program could lock out all others behind its address. A guess
// must still be right, but above the limit a client can go on to guess the
// tokens that were accepted from its own address.
//
// Guesses has the memory of one process, bounded as that of Local, and no
// journal: a token has at least 20 characters, so a few more guesses after a
// restart or at another gate do not help to find one. Only accepted tokens are remembered,
// each with its last 16 clients. So a stranger cannot fill this memory, and a
// token evicts no clients of another one. It is safe for concurrent use and
// outlives configurations.
type Guesses struct {
	clock    clock
	seed     maphash.Seed
	clients  [shards]clientShard
	accepted [shards]acceptedShard
	capacity int // of a shard of accepted
}

// acceptedShard holds the clients of a part of the accepted tokens.
type acceptedShard struct {
	mu     sync.Mutex
	tokens table
}

// NewGuesses returns an empty Guesses.
func NewGuesses() *Guesses {
	return &Guesses{seed: maphash.MakeSeed(), capacity: maxAccepted / shards}
}

// Wait returns how long a client must wait before a token is looked up, or 0.
// The token is given by its SHA-256.
func (g *Guesses) Wait(now time.Time, client Client, token [32]byte) time.Duration {
	wait := g.count(now, client, false)
	if wait > 0 && g.wasAccepted(now, client, token) {
		return 0
	}
	return wait
}

// Add counts an unknown token of a client, unless the client must wait. Then
// it returns how long.
func (g *Guesses) Add(now time.Time, client Client) time.Duration {
	return g.count(now, client, true)
}

// Accept remembers that a valid token came from a client, unless the client
// must wait. Then it returns how long: unknown tokens that came together with
// this one count too.
func (g *Guesses) Accept(now time.Time, client Client, token [32]byte) time.Duration {
	if wait := g.Wait(now, client, token); wait > 0 {
		return wait
	}
	shard, row := g.acceptedShard(token)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	instant, _ := g.clock.at(now)
	if shard.acceptedAt(row, client)+int64(acceptedAgain) > instant {
		return 0
	}
	known, _ := readKnownClients(shard.tokens.get(row)) // appendTo wrote it
	known = known.add(client.fingerprint(), instant)
	shard.tokens.put(row, known.appendTo(nil), instant+int64(acceptedFor), evictFirst)
	shard.tokens.trim(instant, g.capacity)
	return 0
}

func (g *Guesses) wasAccepted(now time.Time, client Client, token [32]byte) bool {
	shard, row := g.acceptedShard(token)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	instant, _ := g.clock.at(now)
	return shard.acceptedAt(row, client)+int64(acceptedFor) > instant
}

func (g *Guesses) acceptedShard(token [32]byte) (shard *acceptedShard, row hash) {
	row = hash(token[:len(row)])
	return &g.accepted[maphash.Comparable(g.seed, row)%shards], row
}

// acceptedAt returns when a token was accepted from a client, or an instant
// long ago if it was not. It reads the row without a copy: each call with a
// foreign token comes here.
func (s *acceptedShard) acceptedAt(row hash, client Client) int64 {
	own := client.fingerprint()
	for known := s.tokens.get(row); len(known) > 0; known = known[knownClientSize:] {
		if bytes.Equal(known[:len(own)], own[:]) {
			return int64(binary.LittleEndian.Uint64(known[len(own):]))
		}
	}
	return -int64(acceptedFor)
}

// fingerprint is the client itself: a token has a row of its own.
func (c Client) fingerprint() (f fingerprint) {
	copy(f[:], c[:])
	return f
}

func (g *Guesses) count(now time.Time, client Client, add bool) time.Duration {
	shard := &g.clients[maphash.Comparable(g.seed, client)%shards]
	shard.mu.Lock()
	defer shard.mu.Unlock()
	instant, reading := g.clock.at(now)
	guesses := shard.state(Limits{PerClient: maxGuesses, Window: guessWindow}, client, instant)
	if opens := guesses.opens(); opens > instant {
		return time.Duration(opens - reading)
	}
	if add {
		guesses.add(instant)
		shard.save(client, guesses)
		shard.attempts.trim(instant, Capacity/shards)
	}
	return 0
}
