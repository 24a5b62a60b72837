package main

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
)

// Blocks go over one connection, with each token in its turn, and an
// answer that is not the expected one ends them.
func TestCaller(t *testing.T) {
	t.Parallel()
	o, err := startOrigin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c, err := connect(t.Context(), o.address, []string{"one", "two"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	took, err := c.block(t.Context())
	if err != nil || len(took) != blockCalls || took.median() <= 0 {
		t.Errorf("got %d samples with the median %v, %v", len(took), took.median(), err)
	}
	if err := o.stop(); err != nil {
		t.Error(err)
	}
	if _, err := c.block(t.Context()); err == nil {
		t.Error("an upstream that was stopped answers")
	}

	var seen []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if seen = append(seen, r.Header.Get("Authorization")); len(seen) == 3 {
			w.WriteHeader(http.StatusTooManyRequests)
		}
	}))
	defer server.Close()
	c, err = connect(t.Context(), strings.TrimPrefix(server.URL, "http://"), []string{"one", "two"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.block(t.Context()); err == nil || !strings.Contains(err.Error(), "429") {
		t.Errorf("got %v, want an error with the status", err)
	}
	if got, want := strings.Join(seen, ", "), "Bearer two, Bearer one, Bearer two"; got != want {
		t.Errorf("the server saw %s, want %s", got, want)
	}
}

// The proxy that sets a gated call's headers without a gate shows the
// upstream and the client the fields that the gate shows them, and none
// beside them.
func TestLabels(t *testing.T) {
	t.Parallel()
	var upstream atomic.Pointer[[]string] // the fields of the last request
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		fields := slices.Sorted(maps.Keys(r.Header))
		upstream.Store(&fields)
	}))
	defer server.Close()
	address := strings.TrimPrefix(server.URL, "http://")
	s := built(t)
	g, err := startGate(t.Context(), s, "gate", "sync off", address)
	if err != nil {
		t.Fatal(err)
	}
	defer stopped(t, g.caddy)
	labelled, err := startCaddy(t.Context(), s, caddyConfig{name: "labelled", site: proxyTo(address, labels)})
	if err != nil {
		t.Fatal(err)
	}
	defer stopped(t, labelled)
	fields := func(c *caddy) [2][]string {
		response, err := c.call(t.Context(), g.open[0])
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		return [2][]string{*upstream.Load(), slices.Sorted(maps.Keys(response.Header))}
	}
	got, want := fields(labelled), fields(g.caddy)
	for i, side := range []string{"upstream", "client"} {
		if !slices.Equal(got[i], want[i]) {
			t.Errorf("the %s sees %q, behind the gate %q", side, got[i], want[i])
		}
	}
	if len(want[0]) < 5 || !slices.Contains(want[0], "Tollgate-Assertion") || !slices.Contains(want[1], "Ratelimit") {
		t.Errorf("behind the gate the upstream sees %q and the client %q", want[0], want[1])
	}
}

func stopped(t *testing.T, c *caddy) {
	t.Helper()
	if err := c.stop(); err != nil {
		t.Error(err)
	}
}
