// Package verify_test runs the verifiers that the documentation shows.
package verify_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/caddy-tollgate/tollgate/caddymodule/assertion"
	"github.com/caddy-tollgate/tollgate/internal/admin/controltest"
	"github.com/caddy-tollgate/tollgate/tools/npmtest"
)

const host = "api.example.com"

// joseVersion is the last one for the Node of Debian 12.
const joseVersion = "5.10.0"

// TestVerifiers gives the same assertions to each verifier, which fetches
// the public keys from a real control API without its secret.
func TestVerifiers(t *testing.T) {
	t.Parallel()
	programs := verifiers(t) // to build them takes longer than the tolerated clock skew
	gate := controltest.New(t)
	jwks := gate.Serve(t) + "/tollgate/jwks.json"
	given, want := assertions(t, gate.PublicKeys().Keys[0])
	names := slices.Sorted(maps.Keys(given))
	var input strings.Builder
	for _, name := range names {
		fmt.Fprintln(&input, given[name])
	}
	for language, command := range programs {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			out := run(t, time.Minute, input.String(), append(slices.Clone(command), jwks, host)...)
			lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
			if len(lines) != len(names) {
				t.Fatalf("got %d lines, want %d: %s", len(lines), len(names), out)
			}
			for i, name := range names {
				if lines[i] != want[name] {
					t.Errorf("%s: got %q, want %q", name, lines[i], want[name])
				}
			}
		})
	}
}

// Threat: a client that reaches the service around the gate makes up a key
// id for each assertion, and the service asks the gate for each of them.
func TestUnknownKeysFetchOnce(t *testing.T) {
	t.Parallel()
	programs := verifiers(t)
	gate := controltest.New(t)
	address, err := url.Parse(gate.Serve(t))
	must(t, err)
	var input strings.Builder
	good := signer(t, controltest.Secret).Call([32]byte{}, host, assertion.Caller{Account: "acc_1", Plan: "starter", Key: "key_1"}, time.Now())
	fmt.Fprintln(&input, good)
	const forged = 20
	for n := range forged {
		fmt.Fprintln(&input, signer(t, fmt.Sprint(controltest.Secret, n)).Call([32]byte{}, host, assertion.Caller{Account: "acc_1", Plan: "starter"}, time.Now()))
	}
	fmt.Fprintln(&input, good)
	refused := strings.Repeat("refused\n", forged)
	const accepted = "call acc_1 starter\n"
	for language, command := range programs {
		for name, c := range map[string]struct {
			handler http.Handler
			want    string
			most    int64
		}{
			"gate answers": {httputil.NewSingleHostReverseProxy(address), accepted + refused + accepted, 2},
			"gate fails":   {http.NotFoundHandler(), "refused\n" + refused + "refused\n", 1},
		} {
			if language == "node" && name == "gate fails" {
				continue // jose asks again after each failure
			}
			t.Run(language+", "+name, func(t *testing.T) {
				t.Parallel()
				var fetched atomic.Int64
				server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					fetched.Add(1)
					c.handler.ServeHTTP(w, r)
				}))
				t.Cleanup(server.Close)
				out := run(t, time.Minute, input.String(), append(slices.Clone(command), server.URL+"/tollgate/jwks.json", host)...)
				if n := fetched.Load(); out != c.want || n > c.most {
					t.Errorf("fetched %d times, want at most %d; got %s", n, c.most, out)
				}
			})
		}
	}
}

// TestNodeWantsAnAudience: jose would accept assertions for every host
// without one.
func TestNodeWantsAnAudience(t *testing.T) {
	t.Parallel()
	command := append(nodeVerifier(t), "http://127.0.0.1:0/")
	out, err := exec.CommandContext(t.Context(), command[0], command[1:]...).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "audience") {
		t.Errorf("got %v, %s", err, out)
	}
}

// assertions returns assertions, and what a verifier must print for each.
func assertions(t *testing.T, public assertion.PublicKey) (given, want map[string]string) {
	t.Helper()
	now := time.Now()
	mine, other := signer(t, controltest.Secret), signer(t, controltest.Secret+"2")
	ada := assertion.Caller{Account: "acc_1", Plan: "starter", Key: "key_1", Abilities: "convert"}
	call := mine.Call([32]byte{}, host, ada, now)
	parts := strings.Split(call, ".")
	const accepted, refused = "call acc_1 starter", "refused"
	given, want = map[string]string{}, map[string]string{}
	for name, c := range map[string][2]string{
		"valid":                        {call, accepted},
		"valid, issued by a slow gate": {signer(t, controltest.Secret).Call([32]byte{}, host, ada, now.Add(-5*time.Minute-20*time.Second)), accepted},
		"valid, issued by a fast gate": {signer(t, controltest.Secret).Call([32]byte{}, host, ada, now.Add(30*time.Second)), accepted},
		"portal link":                  {portal(mine, "https://"+host+"/portal", now), refused},
		"portal link for a call":       {portal(mine, host, now), refused},
		"login":                        {mine.Login(host, now), "login"},
		"expired":                      {signer(t, controltest.Secret).Call([32]byte{}, host, ada, now.Add(-7*time.Minute)), refused},
		"from the future":              {signer(t, controltest.Secret).Call([32]byte{}, host, ada, now.Add(5*time.Minute)), refused},
		"for another host":             {mine.Call([32]byte{}, "www.example.com", ada, now), refused},
		"login at another host":        {mine.Login("www.example.com", now), refused},
		"by another secret":            {other.Call([32]byte{}, host, ada, now), refused},
		"by another secret, our kid":   {parts[0] + "." + parts[1] + "." + strings.Split(other.Call([32]byte{}, host, ada, now), ".")[2], refused},
		"alg none":                     {encode(`{"alg":"none","kid":"`+public.ID+`","typ":"JWT"}`) + "." + parts[1] + ".", refused},
		"HS256 with the public key":    {symmetric(t, public, append(decode(t, public.X), decode(t, public.Y)...), decode(t, parts[1])), refused},
		"HS256 with the key's text":    {symmetric(t, public, []byte(public.X+strings.Repeat(" ", 8)), decode(t, parts[1])), refused},
		"another account":              {parts[0] + "." + encode(strings.Replace(string(decode(t, parts[1])), "acc_1", "acc_2", 1)) + "." + parts[2], refused},
		"no token":                     {"x", refused},
		"nothing":                      {"", refused},
	} {
		given[name], want[name] = c[0], c[1]
	}
	return given, want
}

func signer(t *testing.T, secret string) *assertion.Signer {
	t.Helper()
	key, err := assertion.NewKey(secret)
	must(t, err)
	made, err := assertion.NewSigner(key)
	must(t, err)
	return made
}

func portal(s *assertion.Signer, audience string, now time.Time) string {
	text, _ := s.Portal(audience, "acc_1", now)
	return text
}

// symmetric signs with a key that everyone knows, under the gate's name.
func symmetric(t *testing.T, public assertion.PublicKey, key, payload []byte) string {
	t.Helper()
	with := jose.SigningKey{Algorithm: jose.HS256, Key: jose.JSONWebKey{Key: key, KeyID: public.ID}}
	made, err := jose.NewSigner(with, nil)
	must(t, err)
	object, err := made.Sign(payload)
	must(t, err)
	text, err := object.CompactSerialize()
	must(t, err)
	return text
}

func encode(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }

func decode(t *testing.T, text string) []byte {
	t.Helper()
	bytes, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || !json.Valid(bytes) && len(bytes) != 32 {
		t.Fatalf("decoding %q: %v", text, err)
	}
	return bytes
}

// verifiers returns the command of each verifier.
func verifiers(t *testing.T) map[string][]string {
	return map[string][]string{"go": goVerifier(t), "node": nodeVerifier(t), "python": pythonVerifier(t)}
}

func goVerifier(t *testing.T) []string {
	program := filepath.Join(t.TempDir(), "verify")
	run(t, 5*time.Minute, "", "go", "build", "-o", program, "./go")
	return []string{program}
}

// nodeVerifier puts the file beside a node_modules with the library.
func nodeVerifier(t *testing.T) []string {
	need(t, "node")
	modules := npmtest.Install(t, "jose@"+joseVersion)
	folder := t.TempDir()
	text, err := os.ReadFile("verify.mjs")
	must(t, err)
	must(t, os.WriteFile(filepath.Join(folder, "verify.mjs"), text, 0o600))
	must(t, os.Symlink(modules, filepath.Join(folder, "node_modules")))
	return []string{"node", filepath.Join(folder, "verify.mjs")}
}

// pythonVerifier takes the Python that has the libraries: Debian's has the
// packages, and another one may be first in the path.
func pythonVerifier(t *testing.T) []string {
	for _, python := range []string{"python3", "/usr/bin/python3"} {
		if exec.Command(python, "-c", "import jwt, cryptography").Run() == nil {
			return []string{python, "-u", "verify.py"}
		}
	}
	missing(t, "no python3 has the modules jwt and cryptography")
	return nil
}

func need(t *testing.T, program string) {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		missing(t, err.Error())
	}
}

// missing ends a test without a tool that xcaddy.sh installs.
func missing(t *testing.T, what string) {
	t.Helper()
	if os.Getenv("CI") != "true" {
		t.Skip(what)
	}
	t.Fatal(what)
}

// run runs a program and returns its standard output.
func run(t *testing.T, limit time.Duration, stdin string, command ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	c := exec.CommandContext(ctx, command[0], command[1:]...)
	c.Stdin = strings.NewReader(stdin)
	c.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-trimpath") // those of xcaddy.sh: much is compiled already
	var complaints strings.Builder
	c.Stderr = &complaints
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s%s", filepath.Base(command[0]), err, out, complaints.String())
	}
	return string(out)
}

// must fails a test.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
