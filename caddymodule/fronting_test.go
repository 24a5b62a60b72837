package caddymodule_test

import (
	"encoding/base64"
	"testing"

	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp/caddyauth"
	"golang.org/x/crypto/bcrypt"
)

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
