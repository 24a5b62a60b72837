// Command verify shows how a service in Go verifies Tollgate-Assertion.
// Copy it and call verify for each request.
//
// Run as a program, it reads assertions from standard input, one a line,
// and prints what each is:
//
//	go run . http://127.0.0.1:8081/tollgate/jwks.json api.example.com
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// claims are those of an assertion beside the registered ones.
type claims struct {
	jwt.Claims
	Plan    string `json:"plan"`
	Scope   string `json:"scope"`     // the abilities, separated by spaces
	Key     string `json:"client_id"` // the id of the key
	Purpose string `json:"purpose"`   // "login", or absent in a call
}

// verifier checks assertions for one service.
type verifier struct {
	jwks     string // URL of the public keys
	audience string // the host that clients ask for, without a port

	mu      sync.Mutex
	keys    jose.JSONWebKeySet
	fetched time.Time // when the newest fetch began
}

// verify returns the claims of a valid assertion. The purpose is "" for a
// call, and "login" where your service checks passwords. A portal link,
// "portal", is for the web pages only.
func (v *verifier) verify(assertion, purpose string) (*claims, error) {
	// The list of algorithms is what keeps "none" and HS256 out.
	token, err := jwt.ParseSigned(assertion, []jose.SignatureAlgorithm{jose.ES256})
	if err != nil {
		return nil, fmt.Errorf("parsing: %w", err)
	}
	key, err := v.key(token.Headers[0].KeyID)
	if err != nil {
		return nil, err
	}
	var c claims
	if err := token.Claims(key, &c); err != nil {
		return nil, fmt.Errorf("verifying the signature: %w", err)
	}
	expected := jwt.Expected{Issuer: "tollgate", AnyAudience: jwt.Audience{v.audience}, Time: time.Now()}
	if err := c.ValidateWithLeeway(expected, time.Minute); err != nil {
		return nil, err
	}
	if c.Expiry == nil || c.Purpose != purpose || (c.Subject == "") != (purpose == "login") {
		return nil, errors.New("a claim is missing, or the assertion is for another purpose")
	}
	return &c, nil
}

// key returns the public key with an id. An unknown one may be new: the
// set is fetched again, at most every 30 seconds, also after a failure.
// Until the fetch ends, other requests with an unknown key are refused.
func (v *verifier) key(id string) (*jose.JSONWebKey, error) {
	found, fetch := v.known(id)
	if fetch {
		set, err := v.fetch()
		if err != nil {
			return nil, err
		}
		found = set.Key(id)
	}
	if len(found) == 0 {
		return nil, errors.New("no gate of ours has this key")
	}
	return &found[0], nil
}

// known returns the keys with an id. If there is none, it tells whether the
// caller has to fetch the set.
func (v *verifier) known(id string) (found []jose.JSONWebKey, fetch bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if found = v.keys.Key(id); len(found) > 0 || time.Since(v.fetched) < 30*time.Second {
		return found, false
	}
	v.fetched = time.Now()
	return nil, true
}

// fetch does not hold the lock while it waits for the gate.
func (v *verifier) fetch() (set jose.JSONWebKeySet, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, v.jwks, http.NoBody)
	if err != nil {
		return set, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return set, fmt.Errorf("fetching the public keys: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return set, fmt.Errorf("fetching the public keys: %s", response.Status)
	}
	if err := json.NewDecoder(response.Body).Decode(&set); err != nil {
		return set, fmt.Errorf("reading the public keys: %w", err)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.keys = set
	return set, nil
}

// main prints "call <account> <plan>", "login" or "refused" for each line.
func main() {
	v := &verifier{jwks: os.Args[1], audience: os.Args[2]}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		if c, err := v.verify(lines.Text(), ""); err == nil {
			fmt.Fprintln(os.Stdout, "call", c.Subject, c.Plan)
		} else if _, loginErr := v.verify(lines.Text(), "login"); loginErr == nil {
			fmt.Fprintln(os.Stdout, "login")
		} else {
			fmt.Fprintln(os.Stderr, err)
			fmt.Fprintln(os.Stdout, "refused")
		}
	}
	if err := lines.Err(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
