package e2e_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quic-go/quic-go/http3"

	"github.com/caddy-tollgate/tollgate/e2e/stack"
)

const certified = `
{
	admin {$TOLLGATE_ADMIN}
	auto_https disable_redirects
	skip_install_trust
	tollgate {
		store badger {$TOLLGATE_DATA}/gate
		secret {env.TOLLGATE_SECRET}
		identity {http.request.tls.client.subject} plan {http.request.tls.client.san.dns_names.0} of silver gold
		usage GET /api/usage
		endpoint show GET /show
		plan silver {
			show 1
		}
		plan gold {
			show 100
		}
		plan secret {
			show unlimited
		}
	}
}

(gate) {
	tollgate
	respond "{http.auth.user.id} {http.tollgate.plan}"
}

{$TOLLGATE_ADDRESS} {
	import gate
}

http://{$TOLLGATE_CONTROL} {
	tollgate_control
}

https://localhost:{$VERIFIED} {
	tls internal {
		client_auth {
			mode verify_if_given
			trust_pool file {$CA}
		}
	}
	import gate
}

https://localhost:{$REQUESTED} {
	tls internal {
		client_auth {
			mode request
		}
	}
	import gate
}

https://localhost:{$REQUIRED} {
	tls internal {
		client_auth {
			mode require
			trust_pool file {$CA}
		}
	}
	import gate
}
`

// authority makes certificates of clients.
type authority struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "clients"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	must(t, err)
	cert, err := x509.ParseCertificate(der)
	must(t, err)
	return &authority{key, cert}
}

// client returns a certificate of a client with the names of its plans.
func (a *authority) client(t *testing.T, name string, plans ...string) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, DNSNames: plans, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	must(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// TestClientCertificates: a certificate that the site has verified is an identity
// with its plan, and no other certificate is one, nor a header, in each version of
// HTTP.
func TestClientCertificates(t *testing.T) {
	t.Parallel()
	own, other := newAuthority(t), newAuthority(t)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	must(t, os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: own.cert.Raw}), 0o600))
	ports := stack.FreePorts(t, 3)
	s := stack.StartGate(t, certified, "CA="+ca, "VERIFIED="+ports[0], "REQUESTED="+ports[1], "REQUIRED="+ports[2])
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(awaitCertificate(t, s, "https://localhost:"+ports[0])))
	awaitCertificate(t, s, "https://localhost:"+ports[1])
	ask := func(port string, certificates []tls.Certificate, version int) (int, string) {
		t.Helper()
		config := &tls.Config{RootCAs: roots, Certificates: certificates}
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: version == 2, DisableKeepAlives: true}}
		if version == 3 {
			quic := &http3.Transport{TLSClientConfig: config}
			defer quic.Close()
			client.Transport = quic
		}
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://localhost:"+port+"/show", nil)
		must(t, err)
		for _, name := range []string{"X-Client-Cert", "X-Forwarded-Client-Cert", "Client-Cert", "X-SSL-Client-Verify", "X-SSL-Client-S-DN", "Tollgate-Account"} {
			request.Header.Set(name, "CN=ann")
		}
		response, err := client.Do(request)
		if err != nil {
			return 0, err.Error()
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		must(t, err)
		if response.ProtoMajor != version {
			t.Errorf("got %s, want HTTP/%d", response.Proto, version)
		}
		return response.StatusCode, string(body)
	}
	certificate := func(a *authority, name string, plans ...string) []tls.Certificate {
		return []tls.Certificate{a.client(t, name, plans...)}
	}
	for _, test := range []struct {
		name         string
		port         string
		certificates []tls.Certificate
		status       int
		body         string
	}{
		{"no certificate", ports[0], nil, 401, ""},
		{"a verified one", ports[0], certificate(own, "ann", "gold"), 200, "CN-ann--"},
		{"a second call on silver", ports[0], certificate(own, "bob", "silver"), 200, "CN-bob--"},
		{"no plan that it may name", ports[0], certificate(own, "eve", "secret"), 403, "invalid_identity"},
		{"no plan", ports[0], certificate(own, "joe"), 403, "invalid_identity"},
		{"its first plan only", ports[0], certificate(own, "kim", "secret", "gold"), 403, "invalid_identity"},
		{"no name", ports[0], certificate(own, "", "gold"), 401, ""},
		{"a known account", ports[0], certificate(own, "ann", "secret"), 200, " gold"},
		{"of another authority", ports[0], certificate(other, "ann", "gold"), 0, ""},
		{"requested only", ports[1], certificate(own, "ann", "gold"), 401, ""},
		{"of another authority, requested only", ports[1], certificate(other, "ann", "gold"), 401, ""},
		{"required only", ports[2], certificate(own, "ann", "gold"), 401, ""},
		{"of another authority, required only", ports[2], certificate(other, "zoe", "gold"), 401, ""},
	} {
		for version := 1; version <= 3; version++ {
			if test.name == "a second call on silver" && version > 1 {
				test.status, test.body = 429, "quota_exceeded"
			}
			if status, body := ask(test.port, test.certificates, version); status != test.status || !strings.Contains(body, test.body) {
				t.Errorf("%s, HTTP/%d: got %d %s, want %d %s", test.name, version, status, body, test.status, test.body)
			}
		}
	}
	if strings.Contains(s.Log(), "reads client certificates") {
		t.Error("a warning says that no site verifies certificates")
	}
	if list := s.Tollgate("account", "list", "--json"); strings.Count(list, `"label"`) != 2 || !strings.Contains(list, `"CN=ann"`) || !strings.Contains(list, `"CN=bob"`) {
		t.Errorf("got the accounts %s, want those of ann and bob", list)
	}
}
