package e2e_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/assertion"
	"github.com/caddy-tollgate/tollgate/e2e/stack"
	"github.com/caddy-tollgate/tollgate/tools/npmtest"
)

// verified is a gate in front of Apache and of a service that shows its
// assertion. It serves the public keys by HTTPS.
const verified = `{
	skip_install_trust
	auto_https disable_redirects
	tollgate {
		store badger {$TOLLGATE_DATA}/gate
		secret {env.TOLLGATE_SECRET}
		usage GET /api/usage
		endpoint apache GET /apache
		endpoint show GET /show
		plan starter {
			usage 100
			apache 100
			show 100
		}
	}
}

{$TOLLGATE_ADDRESS} {
	tollgate
	reverse_proxy /apache {$APACHE}
	reverse_proxy /show {$SERVICE}
}

https://{$TOLLGATE_CONTROL} {
	tls internal
	tollgate_control
}
`

// TestOtherVerifiers: libraries and servers that cannot verify Ed25519 accept
// the assertions of a gate, and no others.
func TestOtherVerifiers(t *testing.T) {
	t.Parallel()
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.Header.Get(assertion.Header))
	}))
	t.Cleanup(service.Close)
	apache := "127.0.0.1:" + stack.FreePorts(t, 1)[0]
	s := stack.StartGate(t, verified, "APACHE="+apache, "SERVICE="+service.Listener.Addr().String())
	s.Tollgate("account", "set", "acc_1", "--plan", "starter")
	key := newKey(t, s, "acc_1", "ci")
	// Each verifier gets new ones: it can wait for others longer than they are valid.
	assertions := func(t *testing.T) (valid string, others map[string]string) {
		t.Helper()
		response, valid := s.Call("GET", "/show", key.Token, nil)
		if response.StatusCode != http.StatusOK {
			t.Fatalf("got %d %s", response.StatusCode, valid)
		}
		others = forged(t, valid)
		_, others["a portal link"], _ = strings.Cut(strings.TrimSpace(s.Tollgate("account", "link", "acc_1")), "link=")
		return valid, others
	}

	for library := range libraries {
		t.Run(library, func(t *testing.T) {
			t.Parallel()
			if packages := libraries[library].packages; strings.Contains(packages, "@") {
				npmtest.Install(t, packages) // before the assertions
			}
			valid, others := assertions(t)
			names := slices.Collect(maps.Keys(others))
			input := []string{valid}
			for _, name := range names {
				input = append(input, others[name])
			}
			got := verify(t, library, s.Tollgate("jwks"), input)
			if want := "acc_1 starter apache show usage " + key.ID; got[0] != want {
				t.Errorf("got %q, want %q", got[0], want)
			}
			for i, name := range names {
				if got[1+i] != "refused" {
					t.Errorf("%s: got %q", name, got[1+i])
				}
			}
		})
	}
	t.Run("Apache", func(t *testing.T) {
		t.Parallel()
		startApache(t, s, apache)
		valid, others := assertions(t)
		response, body := s.Call("GET", "/apache", key.Token, nil)
		if got := response.Header.Get("User"); response.StatusCode != http.StatusOK || got != "acc_1 starter "+key.ID {
			t.Errorf("got %d of %q: %s", response.StatusCode, got, body)
		}
		if got := askApache(t, apache, assertion.Header, valid); got != http.StatusOK {
			t.Errorf("the assertion that the gate made: got %d", got)
		}
		for name, text := range others {
			if got := askApache(t, apache, assertion.Header, text); got != http.StatusUnauthorized {
				t.Errorf("%s: got %d", name, got)
			}
		}
		link, _ := signer(t, stack.Secret).Portal("127.0.0.1", "acc_1", time.Now()) // a call's audience, so that only the purpose differs
		if got := askApache(t, apache, assertion.Header, link); got != http.StatusUnauthorized {
			t.Errorf("another purpose: got %d", got)
		}
		if got := askApache(t, apache, "Authorization", "Bearer "+valid); got != http.StatusUnauthorized {
			t.Errorf("the assertion in Authorization: got %d", got)
		}
	})
}

func signer(t *testing.T, secret string) *assertion.Signer {
	t.Helper()
	key, err := assertion.NewKey(secret)
	must(t, err)
	made, err := assertion.NewSigner(key)
	must(t, err)
	return made
}

// forged returns assertions that a service at 127.0.0.1 must refuse.
func forged(t *testing.T, valid string) map[string]string {
	t.Helper()
	now, by := time.Now(), assertion.Caller{Account: "acc_1", Plan: "starter", Key: "key_1", Abilities: "show"}
	parts := strings.Split(valid, ".")
	stranger := signer(t, strings.Repeat("x", 64)).Call([32]byte{}, "127.0.0.1", by, now)
	return map[string]string{
		"another secret":    stranger,
		"that with our kid": parts[0] + "." + strings.SplitN(stranger, ".", 2)[1],
		"another payload":   parts[0] + "." + strings.Split(stranger, ".")[1] + "." + parts[2],
		"no signature":      parts[0] + "." + parts[1] + ".",
		"no algorithm":      base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none","typ":"JWT"}`)) + "." + parts[1] + ".",
		"for another host":  signer(t, stack.Secret).Call([32]byte{}, "www.example.com", by, now),
		"expired":           signer(t, stack.Secret).Call([32]byte{}, "127.0.0.1", by, now.Add(-time.Hour)),
		"a login":           signer(t, stack.Secret).Login("127.0.0.1", now),
		"nothing":           "",
	}
}

// awaitCertificate waits for the certificate of a site, which Caddy makes after it
// has started. It returns that of Caddy's authority.
func awaitCertificate(t *testing.T, s *stack.Stack, site string) (root string) {
	t.Helper()
	response, err := http.Get(s.Admin() + "/pki/ca/local")
	must(t, err)
	defer response.Body.Close()
	var authority struct {
		Root string `json:"root_certificate"`
	}
	must(t, json.NewDecoder(response.Body).Decode(&authority))
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(authority.Root))
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, DisableKeepAlives: true}}
	eventually(t, "the certificate of "+site, func() error {
		response, err := client.Head(site)
		if err == nil {
			response.Body.Close()
		}
		return err
	})
	return authority.Root
}

// startApache starts Apache with docs/verify/apache.conf.
func startApache(t *testing.T, s *stack.Stack, address string) {
	t.Helper()
	const modules = "/usr/lib/apache2/modules"
	_, err := os.Stat(filepath.Join(modules, "mod_auth_openidc.so"))
	need(t, "libapache2-mod-auth-openidc", err)
	// Apache gives up the rights of root: no other directory than its own.
	dir, err := os.MkdirTemp("", "apache")
	must(t, err)
	t.Cleanup(func() { must(t, os.RemoveAll(dir)) })
	must(t, os.Chmod(dir, 0o755))
	root := awaitCertificate(t, s, strings.Replace(s.Control(), "http:", "https:", 1))
	must(t, os.WriteFile(filepath.Join(dir, "gate.crt"), []byte(root), 0o644))
	must(t, os.WriteFile(filepath.Join(dir, "apache"), []byte("hello"), 0o644))
	documented := read(t, filepath.Join(stack.Root(), "docs", "verify", "apache.conf"))
	for old, new := range map[string]string{
		"https://gate.internal:8443": strings.Replace(s.Control(), "http:", "https:", 1), "/etc/apache2/gate.crt": dir + "/gate.crt",
		"aud:api.example.com": "aud:127.0.0.1",
	} {
		if !strings.Contains(documented, old) {
			t.Fatalf("apache.conf has no %q", old)
		}
		documented = strings.Replace(documented, old, new, 1)
	}
	conf := "ServerRoot " + dir + "\nServerName 127.0.0.1\nDefaultRuntimeDir " + dir + "\nPidFile " + dir + "/pid\nListen " + address +
		"\nErrorLog /dev/stderr\nDocumentRoot " + dir + "\nUser www-data\nGroup www-data\n"
	for _, name := range []string{"mpm_event", "authn_core", "authz_core", "headers", "auth_openidc"} {
		conf += "LoadModule " + name + "_module " + modules + "/mod_" + name + ".so\n"
	}
	conf += documented + `Header set User "expr=%{REMOTE_USER} %{reqenv:OIDC_CLAIM_plan} %{reqenv:OIDC_CLAIM_client_id}"` + "\n"
	must(t, os.WriteFile(filepath.Join(dir, "httpd.conf"), []byte(conf), 0o644))
	cmd := exec.Command("/usr/sbin/apache2", "-D", "FOREGROUND", "-f", filepath.Join(dir, "httpd.conf"))
	var out stack.Output
	cmd.Stdout, cmd.Stderr = &out, &out
	must(t, cmd.Start())
	t.Cleanup(func() {
		must(t, cmd.Process.Signal(syscall.SIGTERM))
		_ = cmd.Wait() // it was told to end
		if t.Failed() {
			t.Logf("the output of Apache:\n%s", &out)
		}
	})
	eventually(t, "Apache", func() error {
		response, err := http.Get("http://" + address)
		if err == nil {
			response.Body.Close()
		}
		return err
	})
}

// askApache asks without the gate, and returns the status.
func askApache(t *testing.T, address, header, value string) int {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+"/apache", nil)
	must(t, err)
	r.Header.Set(header, value)
	response, err := http.DefaultClient.Do(r)
	must(t, err)
	response.Body.Close()
	return response.StatusCode
}
