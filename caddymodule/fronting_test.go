package caddymodule_test

import (
	"encoding/base64"
	"testing"
	"time"

	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp/caddyauth"
	"golang.org/x/crypto/bcrypt"

	"github.com/caddy-tollgate/tollgate/caddymodule/store"
)

// TestIdentityOfBasicAuth: a user of basic_auth is an account that the first
// call makes, with an audit entry. A header that claims the user changes
// nothing.
func TestIdentityOfBasicAuth(t *testing.T) {
	hash, err := bcrypt.GenerateFromPassword([]byte("secret"), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	s := start(t, setup{
		zone: calmZone(), more: "identity {http.auth.user.id} plan small prefix staff.",
		before: "@user header Authorization Basic*\n basic_auth @user {\n ann " + string(hash) + "\n auth0|ann " + string(hash) + "\n }",
	})
	_, own := s.account(t, "business")
	basic := func(user, password string) string {
		return "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
	}
	for _, c := range []struct {
		name    string
		header  []string
		status  int
		account string
	}{
		{"nobody", nil, 401, ""},
		{"a claim", []string{"X-User: ann", "Remote-User: ann", "Tollgate-Account: staff.ann"}, 401, ""},
		{"a wrong password", []string{basic("ann", "wrong")}, 401, ""},
		{"a user", []string{basic("ann", "secret")}, 200, "staff.ann"},
		{"a user whose name is no account id", []string{basic("auth0|ann", "secret")}, 200, "staff.auth0-ann--dc3k6acwitj6w5fik43s2jf3haarches"},
		{"a user with a claim", []string{basic("ann", "secret"), "Tollgate-Account: acc_1", "X-User: bob"}, 200, "staff.ann"},
		{"a token", []string{"Authorization: Bearer " + own}, 200, "acc_1"},
	} {
		got := s.ask(t, "GET", convert, "", c.header...)
		if got.status != c.status {
			t.Errorf("%s: got %d %s, want %d", c.name, got.status, got.body, c.status)
		}
		if c.status != 200 {
			continue
		}
		received, _ := s.upstream.last(t)
		if account := received.Header.Get("Tollgate-Account"); account != c.account {
			t.Errorf("%s: the service got the account %q, want %q", c.name, account, c.account)
		}
	}
	db := s.store(t)
	for id, user := range map[string]string{"staff.ann": "ann", "staff.auth0-ann--dc3k6acwitj6w5fik43s2jf3haarches": "auth0|ann"} {
		account, err := db.Account(t.Context(), id)
		if err != nil || account.Plan != "small" || account.Label != user {
			t.Errorf("%s: got %+v, %v, want the label %s", id, account, err, user)
		}
	}
	entries, err := db.ListEntries(t.Context(), "staff.ann", time.Time{}, store.EntryID{}, 10)
	if err != nil || len(entries) != 1 || entries[0].ActorID != "identity" {
		t.Errorf("audit entries: got %+v, %v, want one of the identity", entries, err)
	}
}

// TestIdentityAfterTheGate: the gate sets http.auth.user.id itself. An error
// route with the gate must not take that for a user whom another handler has
// authenticated: a key would get all abilities of its account.
func TestIdentityAfterTheGate(t *testing.T) {
	s := start(t, setup{
		zone: calmZone(), more: "errors pass\nidentity {http.auth.user.id} plan small",
		behind: "reverse_proxy 127.0.0.1:1\n handle_errors {\n tollgate\n respond {http.auth.user.id} 200\n }",
	})
	id, own := s.account(t, "business", "rates")
	for _, target := range []string{convert, "/api/rates/EUR"} { // refused by the first pass; admitted by it
		if got := s.ask(t, "GET", target, "", "Authorization: Bearer "+own); got.status == 200 {
			t.Errorf("%s: the second pass admitted a call without a credential: %s", target, got.body)
		}
	}
	if used := s.used(t, id, "convert"); used != 0 {
		t.Errorf("%d calls counted that the key may not make", used)
	}
}

// TestIdentityTwice: an error route with the gate sees the user of the first
// pass, and the same account.
func TestIdentityTwice(t *testing.T) {
	hash, err := bcrypt.GenerateFromPassword([]byte("secret"), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	s := start(t, setup{
		zone: calmZone(), more: "errors pass\nidentity {http.auth.user.id} plan small",
		before: "basic_auth {\n auth0|ann " + string(hash) + "\n }",
		behind: "reverse_proxy 127.0.0.1:1\n handle_errors {\n tollgate\n respond \"{http.auth.user.id} {http.tollgate.identity}\" 200\n }",
	})
	const account = "auth0-ann--7lafuaodgflqacrxpb3zzmqil5nglkze"
	got := s.ask(t, "GET", convert, "", "Authorization: Basic "+base64.StdEncoding.EncodeToString([]byte("auth0|ann:secret")))
	if want := account + " auth0|ann"; got.body != want {
		t.Errorf("got %s, want %s", got.body, want)
	}
	if used := s.used(t, account, "convert"); used != 1 {
		t.Errorf("counted %d, want 1: the first pass is refunded", used)
	}
}
