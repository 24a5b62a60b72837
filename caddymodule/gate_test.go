package caddymodule_test

import (
	"testing"
)

func TestMeteredCall(t *testing.T) {
	s := start(t, setup{zone: calmZone()})
	id, bearer := s.account(t, "small")
	got := s.get(t, "/api/convert/EUR/10/USD", bearer)
	if got.status != 200 || got.body != "rates" {
		t.Fatalf("got %+v", got)
	}
	t.Log(got.header)
	if n := s.used(t, id, "convert"); n != 1 {
		t.Errorf("counted %d calls, want 1", n)
	}
	for range 4 {
		s.get(t, "/api/convert/EUR/10/USD", bearer)
	}
	got = s.get(t, "/api/convert/EUR/10/USD", bearer)
	if got.status != 429 {
		t.Fatalf("got %+v", got)
	}
	t.Log(got)
	r, _ := s.upstream.last(t)
	t.Log(r.Header)
}
