package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/assertion"
)

// Threat: the gate's control listener hangs, and a forged assertion with an
// unknown key makes the service fetch the keys. Others are verified
// meanwhile.
func TestKnownKeysDoNotWait(t *testing.T) {
	t.Parallel()
	const host = "api.example.com"
	ours, theirs := newKey(t, "a-secret-of-at-least-32-characters"), newKey(t, "another-secret-of-32-characters!!")
	fetching, release := make(chan struct{}), make(chan struct{})
	first := true
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if !first {
			close(fetching)
			<-release
		}
		first = false
		if err := json.NewEncoder(w).Encode(assertion.NewKeySet(ours)); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	free := sync.OnceFunc(func() { close(release) })
	t.Cleanup(free) // or the server could not be closed

	v := &verifier{jwks: server.URL, audience: host}
	valid, forged := call(t, ours, host), call(t, theirs, host)
	if _, err := v.verify(valid, ""); err != nil {
		t.Fatal(err)
	}
	v.fetched = time.Time{} // half a minute is over
	refused := make(chan error)
	go func() {
		_, err := v.verify(forged, "")
		refused <- err
	}()
	<-fetching
	verified := make(chan error)
	go func() {
		_, err := v.verify(valid, "")
		verified <- err
	}()
	select {
	case err := <-verified:
		if err != nil {
			t.Errorf("valid: %v", err)
		}
	case err := <-refused:
		t.Fatalf("the valid assertion waited until the fetch ended: %v", err)
	}
	free()
	if err := <-refused; err == nil {
		t.Error("the forged assertion was accepted")
	}
}

func newKey(t *testing.T, secret string) *assertion.Key {
	t.Helper()
	key, err := assertion.NewKey(secret)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func call(t *testing.T, key *assertion.Key, host string) string {
	t.Helper()
	signer, err := assertion.NewSigner(key)
	if err != nil {
		t.Fatal(err)
	}
	return signer.Call([32]byte{}, host, assertion.Caller{Account: "acc_1", Plan: "starter", Key: "key_1"}, time.Now())
}
