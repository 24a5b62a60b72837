package ledger

import (
	"hash/maphash"
	"sync"
	"sync/atomic"

	"github.com/caddy-tollgate/tollgate/caddymodule/store"
)

// accountPage is how many accounts are allocated at a time.
const accountPage = 1024

// accounts numbers account ids and keeps what a call needs to know of
// each. A number is never used again, even when the account is deleted:
// its counters must not become somebody else's.
type accounts struct {
	seed maphash.Seed

	// What a call looks at takes no lock: rows stay where they are and
	// are complete before their number is below known.
	rows  atomic.Pointer[accountRows]
	known atomic.Uint32

	mu    sync.RWMutex // guards index, and serialises writers of all
	index index        // by the hash of an id
	ids   arena
}

// accountRows is where rows and their ids are to be found.
type accountRows struct {
	pages []*[accountPage]accountRow
	text  []*[chunkSize]byte
}

// accountRow is one account: 16 bytes.
type accountRow struct {
	id    ref
	state atomic.Uint64
}

// accountState packs a plan's number, two flags and how often the account
// was removed, so that a change of all is one atomic store.
type accountState uint64

const (
	stateExists   accountState = 1 << 32
	stateDisabled accountState = 1 << 33
	stateLife     accountState = 1 << 34 // one removal
)

func (s accountState) plan() uint32   { return uint32(s) }
func (s accountState) exists() bool   { return s&stateExists != 0 }
func (s accountState) disabled() bool { return s&stateDisabled != 0 }

// life is the number of the account among all of its id. It begins anew
// after 2^30 removals.
func (s accountState) life() uint32 { return uint32(s / stateLife) }

// account is a row as a reader holds it.
type account struct {
	id  string
	row *accountRow
}

func (a account) load() accountState { return accountState(a.row.state.Load()) }

func (t *accounts) init() {
	t.seed = maphash.MakeSeed()
	t.rows.Store(&accountRows{})
}

// at returns the account of a number that index returned.
func (t *accounts) at(i uint32) account { return t.rows.Load().at(i) }

func (r *accountRows) at(i uint32) account {
	row := &r.pages[i/accountPage][i%accountPage]
	return account{id: textAt(r.text, row.id), row: row}
}

// number returns the number of an account id, a new one if need be.
func (t *accounts) number(id string) uint32 {
	return t.numberHashed(uint32(maphash.String(t.seed, id)>>32), id)
}

func (t *accounts) numberHashed(hash uint32, id string) uint32 {
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
	return t.add(hash, id)
}

// add gives an id the next number.
func (t *accounts) add(hash uint32, id string) uint32 {
	i, rows := t.known.Load(), t.rows.Load()
	ref := t.ids.add(id)
	if i%accountPage == 0 || len(t.ids.chunks) > len(rows.text) {
		// Readers see no further than their own slices reach, so that
		// append may write behind those.
		next := &accountRows{pages: rows.pages, text: t.ids.chunks}
		if i%accountPage == 0 {
			next.pages = append(next.pages, new([accountPage]accountRow))
		}
		t.rows.Store(next)
		rows = next
	}
	rows.pages[i/accountPage][i%accountPage].id = ref
	t.index.add(hash, i)
	t.known.Store(i + 1)
	return i
}

func (t *accounts) lookup(hash uint32, id string) (uint32, bool) {
	if t.known.Load() == 0 {
		return 0, false
	}
	rows := t.rows.Load()
	i, at, ok := t.index.next(hash, t.index.first(hash))
	for ; ok; i, at, ok = t.index.next(hash, at) {
		if rows.at(i).id == id {
			return i, true
		}
	}
	return 0, false
}

// handle is a store.Handle of the ledger: the account's number plus 1,
// and above it the life that was granted something.
type handle store.Handle

func newHandle(number uint32, life uint32) store.Handle {
	return store.Handle(life)<<32 | store.Handle(number+1)
}

// holder is whose counter a call is taken from.
type holder struct {
	account
	number uint32
	handle handle // 0 if the call came without one
}

// holder finds the account of a call. A handle that is not this ledger's,
// or not this account's, is none.
func (t *accounts) holder(call *store.Call) holder {
	if h := handle(call.Handle); h != 0 {
		if i := uint32(h) - 1; i < t.known.Load() {
			if a := t.at(i); a.id == call.Account {
				return holder{account: a, number: i, handle: h}
			}
		}
	}
	i := t.number(call.Account)
	return holder{account: t.at(i), number: i}
}

// gone tells whether the account was removed since the call was granted.
// A call without a handle is as good as the account of its id now; ids
// that were never put are nobody's, and may count.
func (h *holder) gone() bool {
	state := h.load()
	if h.handle != 0 {
		return !state.exists() || state.life() != uint32(h.handle>>32)
	}
	return !state.exists() && state.life() > 0
}

// Gone tells whether the account that a call was granted to was removed
// since. Without a handle that is any account of the id.
func (l *Ledger) Gone(account string, granted store.Handle) bool {
	h := l.accounts.holder(&store.Call{Account: account, Handle: granted})
	return h.gone()
}

// PutAccount sets an account's plan and whether it is disabled, from the
// next call on. Calls for the same id must not run at once, nor with
// RemoveAccount.
func (l *Ledger) PutAccount(id, plan string, disabled bool) {
	a := l.accounts.at(l.accounts.number(id))
	state := accountState(a.load().life())*stateLife | stateExists | accountState(l.plans.index(plan))
	if disabled {
		state |= stateDisabled
	}
	a.row.state.Store(uint64(state))
}

// RemoveAccount ends an account: its tokens open nothing from now on, and
// what they have opened admits no further call, also if another account
// of the id is put meanwhile. It waits for the calls under way, so that
// resetting the account's counters afterwards leaves nothing of them.
func (l *Ledger) RemoveAccount(id string) {
	a := l.accounts.at(l.accounts.number(id))
	a.row.state.Store(uint64(accountState(a.load().life()+1) * stateLife))
	l.calls.Lock()
	defer l.calls.Unlock() // those that come now see that it is gone
}

// Exists tells whether there is an account of that id.
func (l *Ledger) Exists(id string) bool {
	return l.accounts.at(l.accounts.number(id)).load().exists()
}
