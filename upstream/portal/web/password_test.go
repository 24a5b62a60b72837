package web_test

import (
	"fmt"
	"net/http"
	"strconv"
	"testing"
)

// Threat: with a bad new password one guesses at the present one, without
// a limit. Nothing is said of it, and no work done.
func TestGuessingWithBadPasswords(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.add("ada@example.com", "starter")
	ada := w.person().signIn("ada@example.com")
	for range 12 {
		ada.post("/settings/password", "current", "a wrong guess", "password", "short").
			has(t, http.StatusUnprocessableEntity, "Use at least 15 characters")
	}
	if !ada.signedIn() {
		t.Error("the session is over")
	}
}

// Threat: guesses go on beyond the limit because a failure in between, such
// as of a damaged hash, lets the count start again.
func TestFailuresForgetNoGuesses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.add("ada@example.com", "starter")
	ada := w.person().signIn("ada@example.com")
	c, err := w.store.ByID(t.Context(), a.ID)
	if err != nil {
		t.Fatal(err)
	}
	hash := func(hash string) {
		t.Helper()
		if err := w.store.Rehash(t.Context(), a.ID, c.Version, hash); err != nil {
			t.Fatal(err)
		}
	}
	guess := func(status int) {
		t.Helper()
		ada.post("/settings/password", "current", "a wrong guess", "password", other).has(t, status)
	}
	for range 4 {
		guess(http.StatusUnauthorized)
	}
	hash("damaged")
	guess(http.StatusInternalServerError)
	hash(c.Hash)
	guess(http.StatusSeeOther) // to the sign-in
	if ada.signedIn() {
		t.Error("the session goes on after more than five tries")
	}
}

// Threat: an attacker changes a password over and over, to keep the gate and
// the database busy. The page says when the next change is possible.
func TestPasswordChangesAreLimited(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.add("ada@example.com", "starter")
	ada := w.person().signIn("ada@example.com")
	now := password
	for n := range 10 {
		next := fmt.Sprintf("trombone velvet acorn %d", n)
		if got := ada.post("/settings/password", "current", now, "password", next); got.location != "/settings/sessions?done=password" {
			t.Fatalf("change %d: got %d to %q", n, got.status, got.location)
		}
		now = next
	}
	for range 12 { // which is no guessing
		got := ada.post("/settings/password", "current", now, "password", other)
		got.has(t, http.StatusTooManyRequests, "You changed your password too often", "Try again in 6 minutes")
		if wait, err := strconv.Atoi(got.header.Get("Retry-After")); err != nil || wait < 1 || wait > 360 {
			t.Errorf("Retry-After is %q, want up to 360 seconds", got.header.Get("Retry-After"))
		}
	}
	if err := w.accounts.SetPassword(t.Context(), a.ID, other); err != nil {
		t.Errorf("the operator: %v", err)
	}
}
