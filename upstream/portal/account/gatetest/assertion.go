package gatetest

import (
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/assertion"
)

func newKey(t testing.TB) *assertion.Key {
	t.Helper()
	key, err := assertion.NewKey(Secret)
	if err != nil {
		t.Fatalf("deriving the key: %v", err)
	}
	return key
}

// Assert returns the assertion that the gate sends now with a call of an
// account, or with a login, that asked for a host.
func Assert(t testing.TB, host, purpose string) string {
	t.Helper()
	signer, err := assertion.NewSigner(newKey(t))
	if err != nil {
		t.Fatalf("preparing to sign: %v", err)
	}
	if purpose == assertion.Login {
		return signer.Login(host, time.Now())
	}
	return signer.Call([32]byte{}, host, assertion.Caller{Account: "acc_1", Plan: "starter", Key: "key_1", Abilities: "convert"}, time.Now())
}

// Verifier returns what checks assertions at the service of a host.
func Verifier(t testing.TB, host string) *assertion.Verifier {
	t.Helper()
	return assertion.NewVerifier(func(h string) bool { return h == host }, time.Now, newKey(t))
}
