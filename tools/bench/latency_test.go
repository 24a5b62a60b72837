package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
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
