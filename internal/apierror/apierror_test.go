package apierror_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/caddy-tollgate/tollgate/internal/apierror"
)

func TestWrite(t *testing.T) {
	t.Parallel()
	refused := apierror.New(http.StatusTooManyRequests, "quota_exceeded", "No calls are left today.").
		With("limit", 100).With("endpoint", "convert").WithHeader("Retry-After", "7")
	w := httptest.NewRecorder()
	if err := refused.Write(w); err != nil {
		t.Fatal(err)
	}
	const want = `{"message":"No calls are left today.","code":"quota_exceeded","endpoint":"convert","limit":100}`
	if got := w.Body.String(); got != want {
		t.Errorf("body: got %s, want %s", got, want)
	}
	if w.Code != http.StatusTooManyRequests {
		t.Errorf("status: got %d", w.Code)
	}
	for name, want := range map[string]string{
		"Content-Type":   "application/json; charset=utf-8",
		"Cache-Control":  "no-store",
		"Retry-After":    "7",
		"Content-Length": fmt.Sprint(len(want)),
	} {
		if got := w.Header().Get(name); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}

// Refusals are shared between requests: what one request adds must not
// show in another's.
func TestCopiesLeaveTheOriginalAlone(t *testing.T) {
	t.Parallel()
	base := apierror.New(http.StatusForbidden, "insufficient_scope", "No.").With("a", 1).WithHeader("A", "1")
	before, err := json.Marshal(base)
	if err != nil {
		t.Fatal(err)
	}
	base.With("b", 2)
	base.With("a", 2)
	base.WithHeader("B", "2")
	base.WithHeader("A", "2")
	after, err := json.Marshal(base)
	if err != nil {
		t.Fatal(err)
	}
	if string(after) != string(before) {
		t.Errorf("members: got %s, want %s", after, before)
	}
	if got := base.GetHeaders(); len(got) != 1 || got.Get("A") != "1" {
		t.Errorf("headers: got %v", got)
	}
}

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	sent := apierror.New(http.StatusNotFound, "currency_retired", "It is gone.").With("successor", "EUR")
	body, err := json.Marshal(sent)
	if err != nil {
		t.Fatal(err)
	}
	got := &apierror.Error{Status: http.StatusNotFound}
	if err := json.Unmarshal(body, got); err != nil {
		t.Fatal(err)
	}
	if again, err := json.Marshal(got); err != nil || string(again) != string(body) {
		t.Errorf("got %s (%v), want %s", again, err, body)
	}
	if !errors.Is(fmt.Errorf("asking: %w", got), sent) {
		t.Error("the refusal is not recognised after the way over the network")
	}
	if errors.Is(got, apierror.New(http.StatusNotFound, "not_found", "It is gone.")) {
		t.Error("another code is taken for the same refusal")
	}
	if errors.Is(got, apierror.New(http.StatusGone, "currency_retired", "It is gone.")) {
		t.Error("another status is taken for the same refusal")
	}
}

func TestForeignBodiesAreNoRefusals(t *testing.T) {
	t.Parallel()
	for _, body := range []string{`{}`, `{"message":"x"}`, `{"code":"x"}`, `{"message":1,"code":"x"}`, `[]`, `null`, `"x"`, `<html>`, ``} {
		if err := json.Unmarshal([]byte(body), &apierror.Error{}); err == nil {
			t.Errorf("%q was taken for a refusal", body)
		}
	}
}
