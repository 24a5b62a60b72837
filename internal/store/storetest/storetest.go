// Package storetest tests the promises of a book.Engine, through a book.Book.
// The tests of an engine call Run, and those of an embedded one also
// RunEmbedded:
//
//	storetest.Run(t, func(t *testing.T) book.Engine { return open(t) })
//
// Stores delete expired data by the machine's clock, so the tests use times
// close to it, and give a store other times only where that is the point.
package storetest

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/calendar"
	"github.com/caddy-tollgate/tollgate/internal/login"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
	"github.com/caddy-tollgate/tollgate/internal/token"
)

// Embedded is an engine in a directory of this machine, for one process.
type Embedded interface {
	book.Engine
	login.Journal
	io.Closer
}

type test struct {
	name string
	run  func(*suite)
}

// tests are the promises of every store.
var tests = []test{
	{"Counting", (*suite).counting},
	{"Grant", (*suite).grant},
	{"Confirm", (*suite).confirm},
	{"GrantExpires", (*suite).grantExpires},
	{"GrantEnded", (*suite).grantEnded},
	{"GrantAccount", (*suite).grantAccount},
	{"DeletedAccount", (*suite).deletedAccount},
	{"DeletedUnderLoad", (*suite).deletedUnderLoad},
	{"SettleUnderConcurrency", (*suite).settleUnderConcurrency},
	{"PacesAreIndependent", (*suite).pacesAreIndependent},
	{"PacesAllOrNothing", (*suite).pacesAllOrNothing},
	{"PacesOfReturnedCalls", (*suite).pacesOfReturnedCalls},
	{"PacesSetRight", (*suite).pacesSetRight},
	{"CountsOfKeys", (*suite).keyCounts},
	{"ExactAdmission", (*suite).exactAdmission},
	{"AccountChanges", (*suite).accountChanges},
	{"AccountPages", (*suite).accountPages},
	{"AccountBatch", (*suite).accountBatch},
	{"AccountBatchesUnderConcurrency", (*suite).accountBatchesUnderConcurrency},
	{"Overrides", (*suite).overrides},
	{"TokenHolder", (*suite).tokenHolder},
	{"TokenUnderConcurrency", (*suite).tokenUnderConcurrency},
	{"TokenOfLongerKey", (*suite).tokenOfLongerKey},
	{"MovedToken", (*suite).movedToken},
	{"RevivedKey", (*suite).revivedKey},
	{"KeyChanges", (*suite).keyChanges},
	{"EndedKeys", (*suite).endedKeys},
	{"KeyChangesUnderLoad", (*suite).keyChangesUnderLoad},
	{"EndLoginsUnderLoad", (*suite).endLoginsUnderLoad},
	{"Recent", (*suite).recent},
	{"RecentOfDeleted", (*suite).recentOfDeleted},
	{"Rows", (*suite).rows},
	{"Scan", (*suite).scan},
	{"CheckedRows", (*suite).checkedRows},
	{"RowsUnderConcurrency", (*suite).rowsUnderConcurrency},
	{"ExpiringRows", (*suite).expiringRows},
	{"ManyBatches", (*suite).manyBatches},
	{"RowsOfDeleted", (*suite).rowsOfDeleted},
	{"Steps", (*suite).steps},
	{"Log", (*suite).log},
	{"LogUnderConcurrency", (*suite).logUnderConcurrency},
	{"CountsOfAccounts", (*suite).countsOfAccounts},
	{"Closed", (*suite).closedAccounts},
	{"CreditsUnderLoad", (*suite).creditsUnderLoad},
	{"FindKey", (*suite).findKey},
	{"Totals", (*suite).totals},
	{"Dump", (*suite).dump},
	{"DumpUnderLoad", (*suite).dumpUnderLoad},
	{"Running", (*suite).running},
	{"Receipts", (*suite).receipts},
	{"Check", (*suite).check},
}

// clockTests are the promises of a store without a store.Clock.
var clockTests = []test{
	{"Paces", (*suite).paces},
}

// embeddedTests are the further promises of an embedded store. Those that
// are also in tests reopen the store here.
var embeddedTests = []test{
	{"Counting", (*suite).counting},
	{"GrantEnded", (*suite).grantEnded},
	{"DeletedAccount", (*suite).deletedAccount},
	{"CountsOfKeys", (*suite).keyCounts},
	{"Overrides", (*suite).overrides},
	{"KeyChanges", (*suite).keyChanges},
	{"EndedKeys", (*suite).endedKeys},
	{"MovedToken", (*suite).movedToken},
	{"RevivedKey", (*suite).revivedKey},
	{"AccountBatch", (*suite).accountBatch},
	{"Recent", (*suite).recent},
	{"Rows", (*suite).rows},
	{"Scan", (*suite).scan},
	{"ExpiringRows", (*suite).expiringRows},
	{"ManyBatches", (*suite).manyBatches},
	{"RowsOfDeleted", (*suite).rowsOfDeleted},
	{"Steps", (*suite).steps},
	{"Log", (*suite).log},
	{"CountsOfAccounts", (*suite).countsOfAccounts},
	{"Closed", (*suite).closedAccounts},
	{"Totals", (*suite).totals},
	{"Receipts", (*suite).receipts},
	{"Dump", (*suite).dump},
	{"Attempts", (*suite).attempts},
	{"Close", (*suite).closed},
	{"CloseUnderLoad", (*suite).closeUnderLoad},
}

// Run runs the tests that every store passes. Each test gets its own empty
// store from open, which also closes it when the test ends.
func Run(t *testing.T, open func(t *testing.T) book.Engine) {
	run := func(tests []test) {
		for _, test := range tests {
			t.Run(test.name, func(t *testing.T) {
				t.Parallel()
				s := newSuite(t, open(t))
				defer s.close()
				test.run(s)
			})
		}
	}
	run(tests)
	if _, ownClock := open(t).(store.Clock); !ownClock {
		run(clockTests)
	}
}

// RunCounting runs the model's test alone.
func RunCounting(t *testing.T, open func(t *testing.T) book.Engine) {
	s := newSuite(t, open(t))
	defer s.close()
	s.counting()
}

// RunEmbedded runs the tests that only embedded stores pass. Each test gets
// its own empty store from open, which also closes it when the test ends.
// reopen closes the store unless that was done, and opens it again. kill opens it
// as a process has left it that was killed.
func RunEmbedded(t *testing.T, open func(t *testing.T) (s Embedded, reopen, kill func() Embedded)) {
	for _, test := range embeddedTests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			opened, reopen, kill := open(t)
			s := newSuite(t, opened)
			defer s.close()
			s.embedded = opened
			s.restart = func() {
				s.close()
				s.embedded = reopen()
				s.store = New(s.embedded)
			}
			s.kill = func() {
				killed := s.store
				s.embedded = kill()
				s.store = New(s.embedded)
				_ = killed.Close() // its store is closed
			}
			test.run(s)
		})
	}
}

// suite is a test with its store and its time of day.
type suite struct {
	*testing.T
	store    *Store
	embedded Embedded // the engine, nil in Run
	// restart stops and opens an embedded store. It does nothing in Run.
	restart func()
	// kill ends the process of an embedded store, and opens the store again.
	kill func()
	// ownClock tells that the store has a store.Clock.
	ownClock bool
	now      time.Time
	today    calendar.Day
}

func newSuite(t *testing.T, opened book.Engine) *suite {
	now := time.Now().UTC().Truncate(time.Millisecond)
	_, ownClock := opened.(store.Clock)
	return &suite{
		T: t, store: New(opened), restart: func() {}, kill: func() {}, ownClock: ownClock, now: now,
		today: calendar.UTCDay(now),
	}
}

// close closes the book before its engine, which may be closed already.
func (s *suite) close() {
	if err := s.store.Close(); err != nil && !errors.Is(err, store.ErrClosed) {
		s.Errorf("closing the book: %v", err)
	}
}

// must ends the test on an error that the test does not expect.
func (s *suite) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatalf("unexpected error: %v", err)
	}
}

func (s *suite) wantError(what string, got, want error) {
	s.Helper()
	if !errors.Is(got, want) {
		s.Errorf("%s: got error %v, want %v", what, got, want)
	}
}

// account creates accounts on the plan starter.
func (s *suite) account(ids ...string) {
	s.Helper()
	for _, id := range ids {
		_, err := PutAccount(s.Context(), s.store.Book, store.Account{ID: id, Plan: "starter", CreatedAt: s.now})
		s.must(err)
	}
}

// newKey returns a key that never expires. Its id and its token follow from
// the account and the name.
func (s *suite) newKey(account, name string) store.Key {
	return store.Key{
		ID: "key_" + account + "_" + name, Account: account, Kind: token.Key, Name: name,
		Abilities: []string{"convert", "rates"}, Hint: "tgk_…" + name, CreatedAt: s.now,
	}
}

// create stores a key and returns its hash.
func (s *suite) create(key store.Key) token.Hash {
	s.Helper()
	hash := hashOf(key.ID)
	s.must(s.store.CreateKey(s.Context(), clone(key), hash))
	return hash
}

// clone returns a key that shares no memory with the key.
func clone(key store.Key) store.Key {
	key.Abilities, key.Limits, key.Addresses = slices.Clone(key.Abilities), slices.Clone(key.Limits), slices.Clone(key.Addresses)
	return key
}

func hashOf(text string) token.Hash { return sha256.Sum256([]byte(text)) }

// wantGrant checks that the token grants what the key has, on the plan.
func (s *suite) wantGrant(hash token.Hash, key store.Key, plan string) {
	s.Helper()
	want := store.Grant{
		Account: key.Account, Plan: plan, Key: key.ID, KeyName: key.Name,
		Abilities: strings.Join(key.Abilities, " "),
	}
	got, err := s.store.Grant(s.Context(), hash, s.now)
	restriction := got.Restriction
	got.Handle, got.Version, got.Until, got.Cached = 0, 0, time.Time{}, false // they differ between stores
	got.Restriction = nil
	if err != nil || !same(got, want) {
		s.Errorf("grant of %s: got %+v, %v, want %+v", key.ID, got, err, want)
	}
	if want := key.Restriction(); (restriction == nil) != (want == nil) || want != nil && !same(*restriction, *want) {
		s.Errorf("restriction of %s: got %+v, want %+v", key.ID, restriction, want)
	}
}

// wantNoGrant checks that a token grants nothing. A store that tells why also
// tells the account and the key, and nothing else.
func (s *suite) wantNoGrant(what string, hash token.Hash, now time.Time) {
	s.Helper()
	got, err := s.store.Grant(s.Context(), hash, now)
	known := store.WhyNoGrant(err) != ""
	if !errors.Is(err, store.ErrNoGrant) || !same(got, store.Grant{Account: got.Account, Key: got.Key}) || (got.Account != "") != known || (got.Key != "") != known {
		s.Errorf("grant of %s: got %+v, %v, want %v", what, got, err, store.ErrNoGrant)
	}
}

// wantEnded checks that a store tells why the token of a key grants nothing.
func (s *suite) wantEnded(key store.Key, hash token.Hash, now time.Time, want store.NoGrant) {
	s.Helper()
	for from, grant := range map[string]func(context.Context, token.Hash, time.Time) (store.Grant, error){"grant": s.store.Grant, "confirm": s.store.Confirm} {
		got, err := grant(s.Context(), hash, now)
		if store.WhyNoGrant(err) != want || !same(got, store.Grant{Account: key.Account, Key: key.ID}) {
			s.Errorf("%s of %s: got %+v, %v, want %s of account %s", from, key.ID, got, err, want, key.Account)
		}
	}
}

// wantKey compares two keys without what they were used for.
func (s *suite) wantKey(got, want store.Key) {
	s.Helper()
	got.LastUsedAt, want.LastUsedAt = time.Time{}, time.Time{}
	got.LastUsedFrom, want.LastUsedFrom = netip.Addr{}, netip.Addr{}
	if !same(got, want) {
		s.Errorf("key:\n got %+v\nwant %+v", got, want)
	}
}

// same tells whether two values without pointers are equal. A nil slice
// equals an empty one.
func same(a, b any) bool { return fmt.Sprintf("%+v", a) == fmt.Sprintf("%+v", b) }

func (s *suite) call(account, endpoint string) store.Call {
	return store.Call{Account: account, Endpoint: endpoint, At: s.now, Day: s.today}
}

// take takes one call with a limit of the day, and checks the result.
func (s *suite) take(call store.Call, limit, wantUsed int64, wantAdmitted bool) {
	s.Helper()
	s.takeList(call, []store.Limit{daily(limit)}, wantAdmitted, max(0, limit-wantUsed))
}

// used returns the count of the call's account, or of its key if it has one.
func (s *suite) used(call store.Call) int64 {
	s.Helper()
	counts, err := s.store.Counts(s.Context(), call.Account, call.Key, call.Day, call.Day)
	s.must(err)
	for _, c := range counts {
		if c.Endpoint == call.Endpoint {
			return c.Used
		}
	}
	return 0
}

func (s *suite) wantUsed(call store.Call, want int64) {
	s.Helper()
	if got := s.used(call); got != want {
		s.Errorf("count of %+v: got %d, want %d", call, got, want)
	}
}

// sorted sorts counts, which have no order.
func sorted(counts []store.Count) []store.Count {
	slices.SortFunc(counts, func(a, b store.Count) int {
		if a.Day != b.Day {
			return int(a.Day - b.Day)
		}
		return strings.Compare(a.Endpoint, b.Endpoint)
	})
	return counts
}
