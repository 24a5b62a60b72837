package ledger

import (
	"hash/maphash"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/caddy-tollgate/tollgate/internal/store"
)

// accountPage is how many accounts are allocated at a time.
const accountPage = 1024

// accounts numbers account ids and keeps what a call needs to know of
// each. A number is never used again, even when the account is deleted: no
// other account may get its counters. The keys that hold counters have
// numbers, too.
type accounts struct {
	seed maphash.Seed

	// A call reads these without a lock: rows stay where they are and are
	// complete before their number is below known.
	rows  atomic.Pointer[accountRows]
	known atomic.Uint32

	mu    sync.RWMutex      // guards what follows, and serialises writers of all
	index map[uint64]uint32 // the number of the first id with a hash
	same  map[string]uint32 // the numbers of other ids with that hash
	ids   arena

	// terms has those of the accounts whose state says so.
	changing sync.RWMutex // guards terms, and the states of accounts with some; held to change any state
	existing int          // how many accounts exist; guarded by changing
	terms    map[uint32]*store.Terms
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

// accountState packs a plan's number, three flags and the account's
// generation, so that all change with one atomic store.
type accountState uint64

const (
	stateExists     accountState = 1 << 32
	stateDisabled   accountState = 1 << 33
	stateTerms      accountState = 1 << 34
	stateGeneration accountState = 1 << 35 // one of them
)

func (s accountState) plan() uint32   { return uint32(s) }
func (s accountState) exists() bool   { return s&stateExists != 0 }
func (s accountState) disabled() bool { return s&stateDisabled != 0 }

// generation is how often an account of this id was deleted. It begins
// again at 0 after 2^29 times.
func (s accountState) generation() uint32 { return uint32(s / stateGeneration) }

// account is a row as a reader holds it.
type account struct {
	id  string
	row *accountRow
}

func (a account) load() accountState { return accountState(a.row.state.Load()) }

func (t *accounts) init() {
	t.seed = maphash.MakeSeed()
	t.rows.Store(&accountRows{})
	t.index, t.same = map[uint64]uint32{}, map[string]uint32{}
	t.terms = map[uint32]*store.Terms{}
}

// at returns the account of a number that index returned.
func (t *accounts) at(i uint32) account { return t.rows.Load().at(i) }

func (r *accountRows) at(i uint32) account {
	row := &r.pages[i/accountPage][i%accountPage]
	return account{id: textAt(r.text, row.id), row: row}
}

// number returns the number of an account id, a new one if need be.
func (t *accounts) number(id string) uint32 {
	return t.numberHashed(maphash.String(t.seed, id), id)
}

func (t *accounts) numberHashed(hash uint64, id string) uint32 {
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

// find returns the number of an id that has one.
func (t *accounts) find(id string) (i uint32, found bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.lookup(maphash.String(t.seed, id), id)
}

// add gives an id the next number.
func (t *accounts) add(hash uint64, id string) uint32 {
	i, rows := t.known.Load(), t.rows.Load()
	ref := t.ids.add(id)
	if i%accountPage == 0 || len(t.ids.chunks) > len(rows.text) {
		// append writes behind the end of the slices that readers have.
		next := &accountRows{pages: rows.pages, text: t.ids.chunks}
		if i%accountPage == 0 {
			next.pages = append(next.pages, new([accountPage]accountRow))
		}
		t.rows.Store(next)
		rows = next
	}
	rows.pages[i/accountPage][i%accountPage].id = ref
	if _, taken := t.index[hash]; taken {
		t.same[strings.Clone(id)] = i
	} else {
		t.index[hash] = i
	}
	t.known.Store(i + 1)
	return i
}

func (t *accounts) lookup(hash uint64, id string) (i uint32, found bool) {
	if i, found = t.index[hash]; found && t.at(i).id != id {
		i, found = t.same[id]
	}
	return i, found
}

// handle is a store.Handle of the ledger: the account's number plus 1, and
// above it the account's generation at the grant.
type handle store.Handle

func newHandle(number uint32, generation uint32) store.Handle {
	return store.Handle(generation)<<32 | store.Handle(number+1)
}

// reference is the account of a call.
type reference struct {
	account
	number uint32
	handle handle // 0 if the call has none
}

// reference finds the account of a call. A handle that is not of this
// ledger or not of this account is ignored.
func (t *accounts) reference(call *store.Call) reference {
	if h := handle(call.Handle); h != 0 {
		if i := uint32(h) - 1; i < t.known.Load() {
			if a := t.at(i); a.id == call.Account {
				return reference{account: a, number: i, handle: h}
			}
		}
	}
	i := t.number(call.Account)
	return reference{account: t.at(i), number: i}
}

// deleted tells whether the account was deleted after the grant. Without a
// handle the account that has the id now is taken. An id that never had an
// account counts.
func (r *reference) deleted() bool {
	state := r.load()
	if r.handle != 0 {
		return !state.exists() || state.generation() != uint32(r.handle>>32)
	}
	return !state.exists() && state.generation() > 0
}

// replaced tells whether another account has the id of the one that the call
// was granted for.
func (r *reference) replaced() bool {
	return r.deleted() && r.load().exists()
}

// Deleted tells whether the account of a grant was deleted since. Without a
// handle that is any account of the id.
func (l *Ledger) Deleted(account string, granted store.Handle) bool {
	r := l.accounts.reference(&store.Call{Account: account, Handle: granted})
	return r.deleted()
}

// state returns the state of an account and its terms.
func (t *accounts) state(number uint32) (accountState, *store.Terms) {
	a := t.at(number)
	state := a.load()
	if state&stateTerms == 0 {
		return state, nil
	}
	t.changing.RLock()
	defer t.changing.RUnlock()
	return a.load(), t.terms[number] // together
}

// set sets the state of an account and its terms, nil for none.
func (t *accounts) set(number uint32, state accountState, terms *store.Terms) {
	t.changing.Lock()
	defer t.changing.Unlock()
	delete(t.terms, number)
	if !terms.IsZero() {
		state |= stateTerms
		own := terms.Clone()
		t.terms[number] = &own
	}
	row := t.at(number).row
	if accountState(row.state.Load()).exists() {
		t.existing--
	}
	if state.exists() {
		t.existing++
	}
	row.state.Store(uint64(state))
}

// Accounts returns how many accounts exist.
func (l *Ledger) Accounts() int {
	l.accounts.changing.RLock()
	defer l.accounts.changing.RUnlock()
	return l.accounts.existing
}

// PutAccount sets an account's plan, whether it is disabled and its terms,
// from the next call on. Two changes of one account must not run at once.
func (l *Ledger) PutAccount(account *store.Account) { l.putAccount(account, 0) }

// RestoreAccount undoes RemoveAccount, so that calls of earlier grants are
// admitted and settled again.
func (l *Ledger) RestoreAccount(account *store.Account) { l.putAccount(account, 1) }

func (l *Ledger) putAccount(account *store.Account, removals uint32) {
	number := l.accounts.number(account.ID)
	state := accountState(l.accounts.at(number).load().generation()-removals)*stateGeneration | stateExists | accountState(l.plans.index(account.Plan))
	if account.Disabled {
		state |= stateDisabled
	}
	l.accounts.set(number, state, &account.Terms)
}

// RemoveAccount ends an account: its tokens grant nothing from now on, and
// no call of an earlier grant is admitted, even if another account of the id
// is created later. It waits for the commit under way, so that no call
// counts after it.
func (l *Ledger) RemoveAccount(id string) {
	number := l.accounts.number(id)
	l.accounts.set(number, accountState(l.accounts.at(number).load().generation()+1)*stateGeneration, nil)
	l.commits.wait()
	l.commits.pass()
	l.counts.mu.Lock()
	defer l.counts.mu.Unlock()
	l.counts.paces.remove(number, l.endpoints.size())
	if calls, known := l.accounts.find(Holder(id, store.CallsKey)); known {
		l.counts.paces.remove(calls, l.endpoints.size())
	}
}

// Exists tells whether there is an account of that id.
func (l *Ledger) Exists(id string) bool {
	return l.accounts.at(l.accounts.number(id)).load().exists()
}
