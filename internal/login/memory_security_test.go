package login

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"runtime/debug"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/heaptest"
)

// The threat: an attacker with very many addresses fills the memory with
// attempts and with unknown tokens.

// TestCellsAreBounded fills a 32nd of the memory of each class with cells of
// many sizes, up to the largest that any limits allow.
func TestCellsAreBounded(t *testing.T) {
	limits, err := Limits{}.resolve()
	if err != nil {
		t.Fatal(err)
	}
	most := limits.mostFailures()
	filled := func(class Class, size int) *rows {
		r := newRows([classes]int{})
		for class, most := range classMemory {
			r.most[class] = int(most / 32)
		}
		value, room := make([]byte, size), 0
		if class == KnownClass {
			room = size
		}
		for n := range uint64(r.most[class]/(rowSize+size) + 100) { // more than fit
			sum := sha256.Sum256(binary.LittleEndian.AppendUint64(nil, n))
			r.put(&row{key: CellKey{ID: [16]byte(sum[:])}, value: bytes.Clone(value), expires: 1 << 62, class: class, size: room})
			r.trim()
		}
		return &r
	}
	for _, c := range []struct {
		class Class
		size  int // in bytes
		least int // so many cells fit
	}{
		{ClientClass, 5 + 8, 1_000_000},
		{ClientClass, 5 + 8*limits.PerClient*(1+successesPerAttempt), 800_000},
		{FreeClass, 3 + failureSize, 700_000},
		{WaitingClass, 3 + failureSize*limits.Free, 900_000},
		{WaitingClass, 3 + failureSize*most, 600_000},
		{KnownClass, 3 + failureSize*most + knownClientSize + 8*most, 3_000_000},
		{KnownClass, 3 + failureSize*most + maxKnown*(knownClientSize+8*most), 750_000},
		{AddressClass, addressSize, 1_000_000},
		{ClientClass, 513, 0},
		{ClientClass, 1025, 0},
		{ClientClass, 32<<10 + 1, 0},
		{KnownClass, maxCell, 0},
	} {
		name := fmt.Sprintf("class %d, cells of %d bytes", c.class, c.size)
		heaptest.Holds(t, name, classMemory[c.class]/32, func() any {
			r := filled(c.class, c.size)
			if got := len(r.index) * 32; got < c.least {
				t.Errorf("%s: %d fit, want %d", name, got, c.least)
			}
			return r
		})
	}
}

// TestBoundsFit: all bounds together are 59 % of what the process may use, never
// above those of a large server, and never nothing.
func TestBoundsFit(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(before)
	for limit, share := range map[int64]int{math.MaxInt64: 1, 16 << 30: 1, 8 << 30: 1, 4 << 30: 2, 512 << 20: 16, 64 << 20: 128, 1 << 20: 128, 0: 128} {
		debug.SetMemoryLimit(limit)
		if math.MaxInt == math.MaxInt32 {
			share = max(share, 8) // of 32 bits
		}
		sum := 0
		for class, got := range NewMemory(time.Now, nil).rows.most {
			if want := int(classMemory[class] / int64(share)); got != want {
				t.Errorf("limit of %d: class %d has %d bytes, want %d", limit, class, got, want)
			}
			sum += got
		}
		guesses := NewGuesses().rows.most
		if want := 300 << 20 / share; guesses[ClientClass] != want {
			t.Errorf("limit of %d: clients of unknown tokens have %d bytes, want %d", limit, guesses[ClientClass], want)
		}
		if sum += guesses[ClientClass] + guesses[KnownClass]; limit >= smallMemory && float64(sum) > 0.6*float64(limit) {
			t.Errorf("limit of %d: all bounds together are %d bytes", limit, sum)
		}
	}
}

// TestGuessesAreBounded fills a 32nd of the memory of unknown tokens.
func TestGuessesAreBounded(t *testing.T) {
	const most = 300 << 20 / 32
	heaptest.Holds(t, "clients of unknown tokens", most, func() any {
		g := NewGuesses()
		g.rows.most[ClientClass] = most
		for n := range uint32(30_000) {
			var client Client
			binary.BigEndian.PutUint32(client[1:], n)
			for range 20 {
				g.Add(time.Unix(1_800_000_000, 0), client)
			}
		}
		return g
	})
}

// TestAcceptedTokensAreBounded: twice as many tokens as are remembered, each
// from 16 clients, use at most an eighth of the bytes that docs/guarantees.md
// names.
func TestAcceptedTokensAreBounded(t *testing.T) {
	const most = 40 << 20 / 8
	heaptest.Holds(t, "accepted tokens", most, func() any {
		g := NewGuesses()
		g.rows.most[KnownClass] = most
		for n := range 2 << 13 {
			var token [32]byte
			binary.BigEndian.PutUint32(token[:], uint32(n))
			for client := range byte(maxKnown) {
				g.Accept(time.Unix(1_800_000_000, 0), Client{4, 10, 0, 0, client}, token)
			}
		}
		return g
	})
}

// The largest cells that limits allow are not larger than the interface states,
// and the room for failures is enough.
func TestLargestCells(t *testing.T) {
	t.Parallel()
	extreme := Limits{PerClient: maxPerClient, Free: maxFree, FirstWait: time.Second, MaxWait: maxWait, Forget: maxKeep, KnownFor: maxKeep}
	now := time.Unix(1_800_000_000, 0)
	client := &clientState{limits: extreme}
	for range maxPerClient * (1 + successesPerAttempt) {
		client.attempts = append(client.attempts, now.UnixNano())
	}
	account, err := newAccountState(extreme, fingerprint{}, Cell{Now: now})
	if err != nil {
		t.Fatal(err)
	}
	for known := range byte(maxKnown + 1) {
		account.client, account.own = fingerprint{known + 1}, nil
		if known < maxKnown {
			account.succeed(mark{})
		}
		for range 2 * extreme.mostFailures() {
			account.add()
		}
	}
	largest := account.change()
	if got := len(largest.Value); got != largest.Size || largest.Class != KnownClass {
		t.Errorf("got an account of %d bytes, class %d, want %d and %d", got, largest.Class, largest.Size, KnownClass)
	}
	if got := max(len(largest.Value), len(client.change().Value)); got > maxCell {
		t.Errorf("got a cell of %d bytes, want at most %d", got, maxCell)
	}
	if _, err := newAccountState(extreme, fingerprint{}, Cell{Value: largest.Value, Now: now}); err != nil {
		t.Error(err)
	}
}
