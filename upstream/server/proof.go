package server

import (
	"crypto/hmac"
	"net/http"
	"sync"

	"github.com/caddy-tollgate/tollgate/caddymodule/apierror"
	"github.com/caddy-tollgate/tollgate/caddymodule/control"
)

var forbidden = apierror.New(http.StatusForbidden, "forbidden",
	"This service answers through its gate only.")

// requireProof lets requests through that carry the gate's proof, exactly
// once. Whoever reaches the upstream around the gate would otherwise have
// the API without a token, a quota or a login throttle.
func requireProof(secret string, next http.Handler) http.Handler {
	want := []byte(control.Proof(secret))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isProven(r, want) {
			send(w, forbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func isProven(r *http.Request, want []byte) bool {
	got := r.Header.Values(control.ProofHeader)
	// Both have the same length when they are equal, and a length is no
	// secret: it is in the documentation.
	return len(got) == 1 && hmac.Equal([]byte(got[0]), want)
}

// missProof tells the operator, once, when sign-ups come without the
// gate's proof. They open nothing but a free account, so they are let
// through; but nobody counts them, nor who asks by them which e-mail
// addresses have an account.
func (c *Config) missProof(next http.Handler) http.Handler {
	if !c.SignUp {
		return next
	}
	want := []byte(control.Proof(c.Secret))
	var said sync.Once
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isProven(r, want) {
			said.Do(func() {
				c.Logger.Warn("sign-ups are not throttled: add the line \"login POST /signup\" to the gate's configuration")
			})
		}
		next.ServeHTTP(w, r)
	})
}
