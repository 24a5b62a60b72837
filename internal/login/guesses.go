package login

import (
	"sync"
	"time"
)

// acceptedAgain is how often the acceptance of a token is noted again: not at
// each call.
const acceptedAgain = time.Hour

// guessLimits are the unknown tokens that a client may send, and how long the
// accepted ones are remembered.
var guessLimits = Limits{PerClient: 20, Window: time.Minute, KnownFor: 7 * 24 * time.Hour}

// Guesses limits how many unknown tokens a client sends: 20 in any minute. A
// token that was accepted from the client in the last 7 days need not wait:
// otherwise one program could lock out all others behind its address. A guess
// must still be right, but above the limit a client can go on to guess the
// tokens that were accepted from its own address.
//
// Guesses has the memory of one process, bounded in bytes, and no journal: a
// token has at least 20 characters, so some more guesses after a restart or at
// another gate do not help to find one. Only accepted tokens are remembered,
// each with its last 16 clients. So a stranger cannot fill this memory, and a
// token evicts no clients of another one. It is safe for concurrent use and
// outlives configurations.
type Guesses struct {
	mu   sync.Mutex
	rows rows // clients, and accepted tokens as accounts with known clients
}

// NewGuesses returns an empty Guesses, whose bounds fit the memory that the process
// may use then.
func NewGuesses() *Guesses {
	return &Guesses{rows: newRows(fitting([classes]int64{ClientClass: 300 << 20, KnownClass: 40 << 20}))}
}

// Wait returns how long a client must wait before a token is looked up, or 0.
// The token is given by its SHA-256.
func (g *Guesses) Wait(now time.Time, client Client, token [32]byte) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	wait := g.client(now, client).wait()
	if wait > 0 && g.token(now, client, token).own != nil {
		return 0
	}
	return wait
}

// Add counts an unknown token of a client, unless the client must wait. Then
// it returns how long.
func (g *Guesses) Add(now time.Time, client Client) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	guesses := g.client(now, client)
	wait := guesses.wait()
	if wait == 0 {
		guesses.add()
		g.put(client.cellKey(), guesses.change())
	}
	return wait
}

// Accept remembers that a valid token came from a client, unless the client
// must wait. Then it returns how long: unknown tokens that came together with
// this one count too.
func (g *Guesses) Accept(now time.Time, client Client, token [32]byte) time.Duration {
	if wait := g.Wait(now, client, token); wait > 0 {
		return wait
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	accepted := g.token(now, client, token)
	if own := accepted.own; own == nil || own.login+int64(acceptedAgain) <= accepted.instant {
		accepted.succeed(mark{})
		change := accepted.change()
		change.Size = 0 // there are no failures
		g.put(tokenKey(token), change)
	}
	return 0
}

func tokenKey(token [32]byte) CellKey { return CellKey{AccountCell, [16]byte(token[:])} }

// client returns the guesses of a client. Its cell is valid, because change
// encoded it.
func (g *Guesses) client(now time.Time, client Client) *clientState {
	guesses, _ := newClientState(guessLimits, g.rows.get(client.cellKey(), now))
	return guesses
}

// token returns the clients of a token. Each token has a cell of its own, so the
// client itself identifies it there.
func (g *Guesses) token(now time.Time, client Client, token [32]byte) *accountState {
	var own fingerprint
	copy(own[:], client[:])
	accepted, _ := newAccountState(guessLimits, own, g.rows.get(tokenKey(token), now))
	return accepted
}

func (g *Guesses) put(key CellKey, change Change) {
	g.rows.change(key, change)
	g.rows.trim()
}
