package web_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/caddy-tollgate/tollgate/upstream/account/gatetest"
)

// Who knows the password and chooses a bad one, or meets a gate that is
// away, has guessed nothing: the session goes on however often.
func TestRightPasswordIsNoGuess(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.add("ada@example.com", "starter")
	ada := w.person().signIn("ada@example.com")
	for range 12 {
		ada.post("/settings/password", "current", password, "password", "short").
			has(t, http.StatusUnprocessableEntity, "8 characters or more")
	}
	w.gate.Fail(&gatetest.Fault{Hits: gatetest.Requests(http.MethodGet, "/keys")})
	for range 12 {
		ada.post("/settings/password", "current", password, "password", other).
			has(t, http.StatusServiceUnavailable, "The gate does not answer")
	}
	w.gate.Fail(nil)
	if got := ada.post("/settings/password", "current", password, "password", other); got.location != "/settings/sessions?done=password" {
		t.Errorf("got %d to %q", got.status, got.location)
	}
}

// Threat: with a bad new password one guesses at the present one, without
// a limit. Nothing is said of it, and no work done.
func TestGuessingWithBadPasswords(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.add("ada@example.com", "starter")
	ada := w.person().signIn("ada@example.com")
	for range 12 {
		ada.post("/settings/password", "current", "a wrong guess", "password", "short").
			has(t, http.StatusUnprocessableEntity, "8 characters or more")
	}
	if !ada.signedIn() {
		t.Error("the session is over")
	}
}

// When the gate goes away after the change, the password is the new one
// all the same. The page must not say otherwise.
func TestPasswordChangedBeforeTheGateFailed(t *testing.T) {
	t.Parallel()
	w, log := newLoggedWorld(t)
	a := w.add("ada@example.com", "starter")
	ada, phone := w.person().signIn("ada@example.com"), w.person().signIn("ada@example.com")
	var asked atomic.Int64
	keys := gatetest.Requests(http.MethodGet, "/keys")
	w.gate.Fail(&gatetest.Fault{Hits: func(r *http.Request) bool { return keys(r) && asked.Add(1) > 1 }})
	got := ada.post("/settings/password", "current", password, "password", other)
	if got.location != "/settings/sessions?done=password" {
		t.Fatalf("got %d to %q: %s", got.status, got.location, got.body)
	}
	w.gate.Fail(nil)
	ada.get(got.location).has(t, http.StatusOK, "Your password is changed")
	if phone.signedIn() {
		t.Error("a session of the old password lives on")
	}
	if got := w.person().post("/login", "email", "ada@example.com", "password", other); got.status != http.StatusSeeOther {
		t.Errorf("the new password: got %d, want 303", got.status)
	}
	if text := log.text(); !strings.Contains(text, a.ID) || strings.Contains(text, other) || strings.Contains(text, "ada@") {
		t.Errorf("the log must name the account, and neither password nor e-mail: %q", text)
	}
}
