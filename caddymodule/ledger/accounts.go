package ledger

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
)

// accountPage is how many accounts are allocated at a time.
const accountPage = 1024

// accounts numbers account ids and keeps what a call needs to know of
// each. A number is never used again, even when the account is deleted:
// its counters must not become somebody else's.
type accounts struct {
	seed maphash.Seed

	mu    sync.RWMutex
	count uint32
	// byHash leads from the hash of an id to its number. Should two ids
	// share a hash, the later ones stand in clash.
	byHash map[uint64]uint32
	clash  map[string]uint32
	ids    arena
	pages  []*[accountPage]accountRow
}

// accountRow is one account: 16 bytes.
type accountRow struct {
	id    ref
	state atomic.Uint64
}

// accountState packs a plan's number with two flags, so that a change of
// both is one atomic store.
type accountState uint64

const (
	stateExists   accountState = 1 << 32
	stateDisabled accountState = 1 << 33
)

func (s accountState) plan() uint32   { return uint32(s) }
func (s accountState) exists() bool   { return s&stateExists != 0 }
func (s accountState) disabled() bool { return s&stateDisabled != 0 }

// account is a row as a reader holds it.
type account struct {
	id  string
	row *accountRow
}

func (a account) load() accountState { return accountState(a.row.state.Load()) }

func (t *accounts) init() {
	t.seed = maphash.MakeSeed()
	t.byHash = make(map[uint64]uint32)
	t.clash = make(map[string]uint32)
}

// at returns the account of a number that index returned.
func (t *accounts) at(i uint32) account {
	t.mu.RLock()
	row := &t.pages[i/accountPage][i%accountPage]
	id := t.ids.at(row.id)
	t.mu.RUnlock()
	return account{id: id, row: row}
}

// index returns the number of an account id, a new one if need be.
func (t *accounts) index(id string) uint32 {
	return t.indexHashed(maphash.String(t.seed, id), id)
}

func (t *accounts) indexHashed(hash uint64, id string) uint32 {
	t.mu.RLock()
	i, ok := t.lookup(hash, id)
	t.mu.RUnlock()
	if ok {
		return i
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if i, ok = t.lookup(hash, id); ok {
		return i
	}
	i = t.count
	t.count++
	if i%accountPage == 0 {
		t.pages = append(t.pages, new([accountPage]accountRow))
	}
	row := &t.pages[i/accountPage][i%accountPage]
	row.id = t.ids.add(id)
	if _, taken := t.byHash[hash]; taken {
		t.clash[t.ids.at(row.id)] = i
	} else {
		t.byHash[hash] = i
	}
	return i
}

func (t *accounts) lookup(hash uint64, id string) (uint32, bool) {
	i, ok := t.byHash[hash]
	if ok && t.ids.at(t.pages[i/accountPage][i%accountPage].id) == id {
		return i, true
	}
	if !ok {
		return 0, false
	}
	i, ok = t.clash[id]
	return i, ok
}

// PutAccount sets an account's plan and whether it is disabled, from the
// next call on.
func (l *Ledger) PutAccount(id, plan string, disabled bool) {
	state := stateExists | accountState(l.plans.index(plan))
	if disabled {
		state |= stateDisabled
	}
	l.accounts.at(l.accounts.index(id)).row.state.Store(uint64(state))
}

// RemoveAccount ends an account: its tokens open nothing from now on.
func (l *Ledger) RemoveAccount(id string) {
	l.accounts.at(l.accounts.index(id)).row.state.Store(0)
}

// Exists tells whether there is an account of that id.
func (l *Ledger) Exists(id string) bool {
	return l.accounts.at(l.accounts.index(id)).load().exists()
}
