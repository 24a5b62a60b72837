// Package storetest holds every store to the one behaviour that
// store.Store promises. A store's own tests run the suite in three lines:
//
//	storetest.Run(t, func(t *testing.T) (storetest.Store, func() storetest.Store) {
//		...
//	})
//
// The suite runs on the clock of the machine, because stores drop by it
// what has expired, and passes its own times only where they decide.
package storetest

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/calendar"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
	"github.com/caddy-tollgate/tollgate/caddymodule/token"
)

// Store is what the suite tests: a store that can be closed.
type Store interface {
	store.Store
	io.Closer
}

// Open returns an empty store that nobody else uses and that is closed
// when the test ends, whether or not the test has closed it. The function
// beside it closes the store as a stop of the process would and opens
// what it left; it is nil for a store that keeps nothing.
type Open func(t *testing.T) (s Store, reopen func() Store)

// Run runs the suite, each test in a store of its own.
func Run(t *testing.T, open Open) {
	tests := []struct {
		name string
		run  func(*suite)
	}{
		{"Grant", (*suite).grant},
		{"GrantExpires", (*suite).grantExpires},
		{"GrantAfterDisabling", (*suite).grantAfterDisabling},
		{"DeletedAccountStaysDead", (*suite).deletedAccountStaysDead},
		{"DeletedUnderLoad", (*suite).deletedUnderLoad},
		{"Limit", (*suite).limit},
		{"Handles", (*suite).handles},
		{"LimitUnderConcurrency", (*suite).limitUnderConcurrency},
		{"CountersAreIndependent", (*suite).countersAreIndependent},
		{"GiveBack", (*suite).giveBack},
		{"GiveBackUnderConcurrency", (*suite).giveBackUnderConcurrency},
		{"Accounts", (*suite).accounts},
		{"AccountChanges", (*suite).accountChanges},
		{"AccountChangesUnderConcurrency", (*suite).accountChangesUnderConcurrency},
		{"AccountPages", (*suite).accountPages},
		{"Keys", (*suite).keys},
		{"KeyNames", (*suite).keyNames},
		{"KeyLimit", (*suite).keyLimit},
		{"Revoke", (*suite).revoke},
		{"RevokeUnderLoad", (*suite).revokeUnderLoad},
		{"LoginLimit", (*suite).loginLimit},
		{"LoginLimitOfRotation", (*suite).loginLimitOfRotation},
		{"EndLogins", (*suite).endLogins},
		{"EndLoginsUnderLoad", (*suite).endLoginsUnderLoad},
		{"Rotate", (*suite).rotate},
		{"RotateWithOverlap", (*suite).rotateWithOverlap},
		{"RotateRefusals", (*suite).rotateRefusals},
		{"LastUse", (*suite).lastUse},
		{"Recent", (*suite).recent},
		{"RecentOrder", (*suite).recentOrder},
		{"RecentOfDeleted", (*suite).recentOfDeleted},
		{"Counts", (*suite).counts},
		{"ResetCounts", (*suite).resetCounts},
		{"Attempts", (*suite).attempts},
		{"Check", (*suite).check},
		{"Reopen", (*suite).reopened},
		{"Close", (*suite).closed},
		{"CloseUnderLoad", (*suite).closeUnderLoad},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := &suite{T: t, now: time.Now().UTC().Truncate(time.Millisecond)}
			s.today = calendar.Day(s.now.Unix() / int64(24*time.Hour/time.Second))
			s.store, s.reopen = open(t)
			test.run(s)
		})
	}
}

// suite is a test with its store and its time of day.
type suite struct {
	*testing.T
	store  Store
	reopen func() Store
	now    time.Time
	today  calendar.Day
}

// must ends the test on an error that it is not about.
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

// account makes accounts on the plan starter.
func (s *suite) account(ids ...string) {
	s.Helper()
	for _, id := range ids {
		_, err := PutAccount(s.Context(), s.store, store.Account{ID: id, Plan: "starter", CreatedAt: s.now})
		s.must(err)
	}
}

// newKey is a key of the account that never expires. Its id and its token
// follow from the name.
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
	s.must(s.store.CreateKey(s.Context(), key, hash))
	return hash
}

func hashOf(text string) token.Hash { return sha256.Sum256([]byte(text)) }

// wantGrant checks that a token opens what the key says, on the plan.
func (s *suite) wantGrant(hash token.Hash, key store.Key, plan string) {
	s.Helper()
	want := store.Grant{
		Account: key.Account, Plan: plan, Key: key.ID, KeyName: key.Name,
		Abilities: strings.Join(key.Abilities, " "),
	}
	got, err := s.store.Grant(s.Context(), hash, s.now)
	got.Handle = 0 // the store's own
	if err != nil || got != want {
		s.Errorf("grant of %s: got %+v, %v, want %+v", key.ID, got, err, want)
	}
}

func (s *suite) wantNoGrant(what string, hash token.Hash, now time.Time) {
	s.Helper()
	if got, err := s.store.Grant(s.Context(), hash, now); !errors.Is(err, store.ErrNoGrant) || got != (store.Grant{}) {
		s.Errorf("grant of %s: got %+v, %v, want %v", what, got, err, store.ErrNoGrant)
	}
}

// wantKey compares a key but for its last use.
func (s *suite) wantKey(got, want store.Key) {
	s.Helper()
	got.LastUsedAt, want.LastUsedAt = time.Time{}, time.Time{}
	if g, w := fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", want); g != w {
		s.Errorf("key:\n got %s\nwant %s", g, w)
	}
}

func (s *suite) call(account, endpoint string) store.Call {
	return store.Call{Account: account, Endpoint: endpoint, Day: s.today}
}

// take takes one call and checks what becomes of it.
func (s *suite) take(call store.Call, limit, wantUsed int64, wantAdmitted bool) {
	s.Helper()
	remaining := []int64{0}
	admitted, err := s.store.Take(s.Context(), call, daily(limit), remaining)
	wantRemaining := max(0, limit-wantUsed)
	if err != nil || remaining[0] != wantRemaining || admitted != wantAdmitted {
		s.Errorf("take from %+v with limit %d: got %d left, %v, %v, want %d, %v",
			call, limit, remaining[0], admitted, err, wantRemaining, wantAdmitted)
	}
}

// daily is a limit of the calls to one endpoint on one day.
func daily(limit int64) []store.Limit { return []store.Limit{{Period: store.Day, Max: limit}} }

// used returns a counter's count as the archive has it.
func (s *suite) used(call store.Call) int64 {
	s.Helper()
	counts, err := s.store.Counts(s.Context(), call.Account, call.Day, call.Day)
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

// sorted brings counts into an order, as they come in none.
func sorted(counts []store.Count) []store.Count {
	slices.SortFunc(counts, func(a, b store.Count) int {
		if a.Day != b.Day {
			return int(a.Day - b.Day)
		}
		return strings.Compare(a.Endpoint, b.Endpoint)
	})
	return counts
}
