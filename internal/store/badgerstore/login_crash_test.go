package badgerstore_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/badgerstore"
	"github.com/caddy-tollgate/tollgate/internal/store/storetest"
	"github.com/caddy-tollgate/tollgate/internal/token"
)

// crashLogin is a login token of a round of endLogins.
func crashLogin(round string, number int) (store.Key, token.Hash) {
	id := fmt.Sprintf("login_%s_%d", round, number)
	return store.Key{
		ID: id, Account: "acc_logins", Kind: token.Login, Name: "login", CreatedAt: now, ExpiresAt: now.Add(time.Hour),
	}, sha256.Sum256([]byte(id))
}

// endLogins makes as many login tokens as there may be, ends them, and
// does so again. It acknowledges both on standard output.
func endLogins(s badgerstore.TestStore) {
	ctx := context.Background()
	for {
		round := fmt.Sprint(time.Now().UnixNano())
		for number := range store.MaxLiveLogins {
			key, hash := crashLogin(round, number)
			if s.CreateKey(ctx, key, hash) != nil {
				return
			}
		}
		fmt.Println("made", round)
		if s.EndLogins(ctx, "acc_logins", time.Now()) != nil {
			return
		}
		fmt.Println("ended", round)
	}
}

// TestKillWhileLoginsEnd kills a process that ends the login tokens of an
// account: afterwards all of them are live or none, and none if the end was
// acknowledged.
func TestKillWhileLoginsEnd(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	if _, err := storetest.PutAccount(t.Context(), s.Book, store.Account{ID: "acc_logins", Plan: "starter", CreatedAt: now}); err != nil {
		t.Fatalf("creating the account: %v", err)
	}
	for kill := range 3 {
		if err := s.Close(); err != nil {
			t.Fatalf("closing: %v", err)
		}
		made, ended := killWhileLoginsEnd(t, dir, time.Duration(kill)*400*time.Microsecond)
		s = open(t, dir)
		live := 0
		for number := range store.MaxLiveLogins {
			_, hash := crashLogin(made, number)
			_, err := s.Grant(t.Context(), hash, now)
			if err == nil {
				live++
			} else if !errors.Is(err, store.ErrNoGrant) {
				t.Fatal(err)
			}
		}
		if live != 0 && (ended || live != store.MaxLiveLogins) {
			t.Errorf("%d of %d login tokens are live, acknowledged: %v", live, store.MaxLiveLogins, ended)
		}
	}
}

// killWhileLoginsEnd kills a child so long after it has made its tokens,
// and returns which and whether it has acknowledged their end.
func killWhileLoginsEnd(t *testing.T, dir string, after time.Duration) (made string, ended bool) {
	t.Helper()
	cmd, lines := start(t, "logins", dir)
	for lines.Scan() {
		what, round, _ := strings.Cut(lines.Text(), " ")
		switch {
		case what == "made" && made == "":
			made = round
			time.AfterFunc(after, func() { _ = cmd.Process.Kill() })
		case what == "ended" && round == made:
			ended = true
		}
	}
	if err := cmd.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Fatalf("the child ended on its own: %v", err)
	}
	if made == "" {
		t.Fatal("the child has made no login tokens")
	}
	return made, ended
}
