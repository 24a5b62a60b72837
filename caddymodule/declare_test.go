package caddymodule_test

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/store"
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

// TestRotationByFile: with the old and the new key in one file between two loads,
// no call fails.
func TestRotationByFile(t *testing.T) {
	s := start(t, setup{zone: calmZone(), port: freePort(t)})
	before, beforeLine := secretKey(t, "ci-1")
	after, afterLine := secretKey(t, "ci-2")
	s.declares(t, "business", beforeLine)
	// during calls the API until a load is done.
	during := func(bearer string, lines ...string) {
		var calling sync.WaitGroup
		done := make(chan struct{})
		for range 4 {
			calling.Go(func() {
				for loaded := false; !loaded; {
					select {
					case <-done:
						loaded = true
					default:
					}
					if got := s.get(t, convert, bearer); got.status != http.StatusOK {
						t.Errorf("got %+v", got)
					}
				}
			})
		}
		s.declares(t, "business", lines...)
		close(done)
		calling.Wait()
	}
	during(before, beforeLine, afterLine)
	during(after, afterLine)
	if got := s.get(t, convert, before); got.status != http.StatusUnauthorized {
		t.Errorf("the old key: got %+v", got)
	}
}

// TestLoadThatFailsDeclaresNothing: after a load in which another app fails, the
// store is as the configuration in force declares it.
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
	running := s.setup
	s.more = "account acme small {\n" + neverLine + "}\naccount other small\n"
	s.behind = fmt.Sprintf("respond x\n}\nhttp://:%d {\nbind 127.0.0.1", taken.Addr().(*net.TCPAddr).Port)
	for range 10 { // the app tollgate may have been started by then, or not
		if err := s.reload(); err == nil {
			t.Fatal("the configuration was loaded")
		}
		s.setup, running = running, s.setup
		for bearer, want := range map[string]int{kept: http.StatusOK, never: http.StatusUnauthorized} {
			if got := s.get(t, convert, bearer); got.status != want {
				t.Errorf("got %+v, want %d", got, want)
			}
		}
		if account, err := s.store(t).Account(t.Context(), "acme"); err != nil || account.Plan != "business" || !account.Declared {
			t.Errorf("got %+v, %v", account, err)
		}
		if account, err := s.store(t).Account(t.Context(), "other"); err == nil && account.Declared || err != nil && !errors.Is(err, store.ErrNotFound) {
			t.Errorf("got %+v, %v", account, err)
		}
		s.setup, running = running, s.setup
	}
}
