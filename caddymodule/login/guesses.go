package login

import (
	"hash/maphash"
	"time"
)

// A client may send maxGuesses unknown tokens in any guessWindow.
const (
	maxGuesses  = 20
	guessWindow = time.Minute
)

// Guesses limits how many unknown tokens a client sends: 20 in any minute.
// It has the memory of one process, bounded as that of Local, and no journal:
// a token has at least 20 characters, so a few more guesses after a restart
// or at another gate help nobody. It is safe for concurrent use and outlives
// configurations.
type Guesses struct {
	clock   clock
	seed    maphash.Seed
	clients [shards]clientShard
}

// NewGuesses returns an empty Guesses.
func NewGuesses() *Guesses { return &Guesses{seed: maphash.MakeSeed()} }

// Wait returns how long a client must wait before its next token is looked
// up, or 0.
func (g *Guesses) Wait(now time.Time, client Client) time.Duration {
	return g.count(now, client, false)
}

// Add counts an unknown token of a client, unless the client must wait. Then
// it returns how long.
func (g *Guesses) Add(now time.Time, client Client) time.Duration {
	return g.count(now, client, true)
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
