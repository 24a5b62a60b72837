package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
)

// TestMain lets this program start itself as the currency API.
func TestMain(m *testing.M) {
	if len(os.Args) != 4 || os.Args[1] != serveCurrency {
		os.Exit(m.Run())
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := runCurrency(ctx, os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// The currency API answers a proxy without an assertion, and refuses an
// invalid one.
func TestCurrency(t *testing.T) {
	t.Parallel()
	b := built(t)
	currency, err := b.startCurrency(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for assertion, want := range map[string]int{"": http.StatusOK, "invalid": http.StatusForbidden} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+currency.address+callPath, nil)
		if err != nil {
			t.Fatal(err)
		}
		if assertion != "" {
			r.Header.Set("Tollgate-Assertion", assertion)
		}
		response, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil || response.StatusCode != want || strings.Contains(string(body), `"from":"EUR"`) != (want == http.StatusOK) {
			t.Errorf("assertion %q: got %d %s, %v, want %d", assertion, response.StatusCode, body, err, want)
		}
	}
}
