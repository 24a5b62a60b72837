package assertion_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/assertion"
)

// A service behind the gate asks whose call a request is. It fetches the public
// keys with the method PublicKeys of package control/client.
func ExampleVerifier() {
	accepts, err := assertion.Hosts("https://api.example.com") // where clients call the gate
	if err != nil {
		log.Fatal(err)
	}
	verifier := assertion.NewVerifier(accepts, time.Now)
	verifier.FetchKeys(publicKeys, func(err error) { log.Print(err) })
	service := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		claims, err := verifier.Verify(r.Header.Get(assertion.Header), assertion.Call)
		if err != nil {
			http.Error(w, "the request did not come from the gate", http.StatusUnauthorized)
			return
		}
		fmt.Fprintf(w, "%s on plan %s may %s", claims.Account, claims.Plan, claims.Abilities)
	})

	answer := httptest.NewRecorder()
	service.ServeHTTP(answer, fromGate())
	fmt.Println(answer.Body)
	answer = httptest.NewRecorder()
	service.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/api/convert/EUR/1/USD", nil))
	fmt.Println(answer.Code)
	// Output:
	// acc_1 on plan starter may convert
	// 401
}

// The gate of the example has this key, and calls the service so.
var gateKey, _ = assertion.NewKey("a secret of at least 32 characters")

func publicKeys(context.Context) (assertion.KeySet, error) { return assertion.NewKeySet(gateKey), nil }

func fromGate() *http.Request {
	signer, err := assertion.NewSigner(gateKey)
	if err != nil {
		log.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodGet, "/api/convert/EUR/1/USD", nil)
	r.Header.Set(assertion.Header, signer.Call([32]byte{1}, "api.example.com", assertion.Caller{Account: "acc_1", Plan: "starter", Abilities: "convert"}, time.Now()))
	return r
}
