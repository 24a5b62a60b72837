package caddymodule_test

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
	"github.com/caddy-tollgate/tollgate/internal/token"
)

// secretKey returns a token, and a line that declares its key.
func secretKey(t *testing.T, name string) (bearer, line string) {
	t.Helper()
	secret, err := token.New(token.Key, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	hash := secret.Hash()
	return secret.Reveal(), fmt.Sprintf("key %s sha256:%s\n", name, hex.EncodeToString(hash[:]))
}

// declares loads a configuration that declares an account with lines.
func (s *site) declares(t *testing.T, plan string, lines ...string) {
	t.Helper()
	s.more = ""
	if plan != "" {
		s.more = "account acme " + plan + " {\nlabel Acme\n" + strings.Join(lines, "") + "}\n"
	}
	if err := s.reload(); err != nil {
		t.Fatal(err)
	}
}

// TestDeclared: each load makes the store what its file declares, for the next
// request.
func TestDeclared(t *testing.T) {
	s := start(t, setup{zone: calmZone(), port: freePort(t)})
	first, firstLine := secretKey(t, "ci")
	second, secondLine := secretKey(t, "ci")
	want := func(what, bearer string, status int) {
		t.Helper()
		if got := s.get(t, convert, bearer); got.status != status {
			t.Errorf("%s: got %+v, want %d", what, got, status)
		}
	}
	s.declares(t, "starter", firstLine)
	want("declared", first, http.StatusOK)
	found, err := s.store(t).ListKeys(t.Context(), "acme")
	if err != nil || len(found) != 1 || !found[0].Declared {
		t.Fatalf("got %+v, %v", found, err)
	}
	s.declares(t, "starter", "disabled\n", firstLine)
	want("disabled", first, http.StatusUnauthorized)
	s.declares(t, "free", firstLine)
	want("on a plan without access", first, http.StatusForbidden)
	s.declares(t, "business", secondLine)
	want("that left the file", first, http.StatusUnauthorized)
	want("with its name", second, http.StatusOK)
	s.declares(t, "small", firstLine)
	want("back in the file", first, http.StatusOK)
	again, err := s.store(t).ListKeys(t.Context(), "acme")
	if err != nil || len(again) != 2 || again[0].ID != found[0].ID || !again[0].RevokedAt.IsZero() || again[1].RevokedAt.IsZero() || again[1].Declared {
		t.Errorf("got %+v, %v", again, err)
	}
	own := s.key(t, store.Key{Account: "acme", Kind: token.Key, Name: "own", Abilities: []string{"convert"}, CreatedAt: time.Now()})
	s.declares(t, "")
	want("of an account that left the file", first, http.StatusUnauthorized)
	want("that the file did not have", own, http.StatusOK)
	if account, err := s.store(t).Account(t.Context(), "acme"); err != nil || account.Declared || account.Plan != "small" {
		t.Errorf("got %+v, %v", account, err)
	}
	if n := s.used(t, "acme", "convert"); n != 4 {
		t.Errorf("counted %d calls, want 4", n)
	}
}

// during calls the API with a key while something is done: each call is admitted.
func (s *site) during(t *testing.T, bearer string, do func()) {
	t.Helper()
	var calling sync.WaitGroup
	done := make(chan struct{})
	for range 4 {
		calling.Go(func() {
			for last := false; !last; {
				select {
				case <-done:
					last = true
				default:
				}
				if got := s.get(t, convert, bearer); got.status != http.StatusOK {
					t.Errorf("got %+v", got)
				}
			}
		})
	}
	do()
	close(done)
	calling.Wait()
}

// load loads a configuration with more options, and does not change the site's.
func (s *site) load(more, behind string) error {
	of := site{setup: s.setup}
	of.more, of.behind = more, behind
	return s.client.Load(of.text(s.upstream.address()))
}

// TestRotationByFile: with the old and the new key in one file between two loads,
// no call fails.
func TestRotationByFile(t *testing.T) {
	s := start(t, setup{zone: calmZone(), port: freePort(t)})
	before, beforeLine := secretKey(t, "ci-1")
	after, afterLine := secretKey(t, "ci-2")
	s.declares(t, "business", beforeLine)
	loads := func(lines string) func() {
		return func() {
			if err := s.load("account acme business {\n"+lines+"}\n", ""); err != nil {
				t.Error(err)
			}
		}
	}
	s.during(t, before, loads(beforeLine+afterLine))
	s.during(t, after, loads(afterLine))
	if got := s.get(t, convert, before); got.status != http.StatusUnauthorized {
		t.Errorf("the old key: got %+v", got)
	}
}

// TestMoveToNewPlan: an account moves to a plan with a new name, and no call fails:
// a load adds the plan, the next one moves the account, and a third one removes the
// old plan.
func TestMoveToNewPlan(t *testing.T) {
	s := start(t, setup{zone: calmZone(), port: freePort(t)})
	bearer, line := secretKey(t, "ci")
	plan := func(name string) string { return "plan " + name + " {\nconvert unlimited\n}\n" }
	account := func(plan string) string { return "account acme " + plan + " {\n" + line + "}\n" }
	must := func(err error) {
		if err != nil {
			t.Error(err)
		}
	}
	must(s.load(plan("old")+account("old"), ""))
	s.during(t, bearer, func() {
		must(s.load(plan("old")+plan("new")+account("old"), ""))
		must(s.load(plan("old")+plan("new")+account("new"), ""))
		must(s.load(plan("new")+account("new"), ""))
	})
}

// TestLoadThatFailsDeclaresNothing: a load in which another app fails changes
// nothing in the store, not even for a moment.
func TestLoadThatFailsDeclaresNothing(t *testing.T) {
	s := start(t, setup{zone: calmZone(), port: freePort(t)})
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	kept, keptLine := secretKey(t, "kept")
	never, neverLine := secretKey(t, "never")
	s.declares(t, "business", keptLine)
	all := func() []store.Entry {
		list, err := s.store(t).ListEntries(t.Context(), book.EntryFilter{}, store.EntryID{}, 100)
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	entries := len(all())
	behind := fmt.Sprintf("respond x\n}\nhttp://:%d {\nbind 127.0.0.1", taken.Addr().(*net.TCPAddr).Port)
	s.during(t, kept, func() {
		for i := range 10 { // the app tollgate may have been started by then, or not
			more := "account acme small {\n" + neverLine + "}\naccount other small\n"
			if i%2 == 0 {
				more = ""
			}
			if err := s.load(more, behind); err == nil {
				t.Error("the configuration was loaded")
			}
			if got := s.get(t, convert, never); got.status != http.StatusUnauthorized {
				t.Errorf("got %+v", got)
			}
		}
	})
	if list := all(); len(list) != entries {
		t.Errorf("the audit log has %+v", list)
	}
}

// TestLoadOfATakenToken fails before it changes anything.
func TestLoadOfATakenToken(t *testing.T) {
	s := start(t, setup{zone: calmZone(), port: freePort(t)})
	bearer, line := secretKey(t, "ci")
	s.declares(t, "business", line)
	_, own := s.account(t, "business")
	sum := token.Foreign(own)
	err := s.load("account acme small\naccount other small {\nkey x sha256:"+hex.EncodeToString(sum[:])+"\n}\n", "")
	if err == nil || !strings.Contains(err.Error(), "has a live key or login with this token") {
		t.Errorf("got %v", err)
	}
	if got := s.get(t, convert, bearer); got.status != http.StatusOK {
		t.Errorf("got %+v", got)
	}
}
