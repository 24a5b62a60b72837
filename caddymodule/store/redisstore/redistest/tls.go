package redistest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Files are the paths of what a client of a TLS server needs, in PEM.
type Files struct {
	CA   string // the certificate that signed the server's
	Cert string // the client's certificate
	Key  string // its key
}

// StartTLS launches a server for a test that accepts TLS only and requires a
// client certificate.
func StartTLS(t testing.TB, config ...string) (*Server, Files) {
	t.Helper()
	need(t)
	dir := t.TempDir()
	client, server, err := certificates(dir)
	if err != nil {
		t.Fatal(err)
	}
	settings, err := client.settings()
	if err != nil {
		t.Fatal(err)
	}
	launched, err := launch(setup{
		dir: dir, secret: newSecret(), scheme: "rediss", tls: settings,
		lines: func(port int) ([]string, error) {
			return dataLines(append([]string{
				"port 0",
				fmt.Sprintf("tls-port %d", port),
				fmt.Sprintf("tls-cert-file %q", server.Cert),
				fmt.Sprintf("tls-key-file %q", server.Key),
				fmt.Sprintf("tls-ca-cert-file %q", server.CA),
				"tls-auth-clients yes",
			}, config...)), nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	end(t, launched)
	return launched, client
}

// settings returns the files as a client uses them.
func (f Files) settings() (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(f.CA)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s has no certificate", f.CA)
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots, Certificates: []tls.Certificate{pair}, ServerName: "127.0.0.1"}, nil
}

// certificates makes a certificate authority and writes certificates of a
// client and of a server that it signed.
func certificates(dir string) (client, server Files, err error) {
	authority := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "redistest CA"},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	key, der, err := sign(authority, authority, nil)
	if err != nil {
		return client, server, err
	}
	path := filepath.Join(dir, "ca.pem")
	if err := writePEM(path, "CERTIFICATE", der); err != nil {
		return client, server, err
	}
	issue := func(name string, serial int64, usage x509.ExtKeyUsage) (Files, error) {
		files := Files{CA: path, Cert: filepath.Join(dir, name+".pem"), Key: filepath.Join(dir, name+".key")}
		own, der, err := sign(&x509.Certificate{
			SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: name},
			KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{usage},
			DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.ParseIP("127.0.0.1")},
		}, authority, key)
		if err != nil {
			return files, err
		}
		if err := writePEM(files.Cert, "CERTIFICATE", der); err != nil {
			return files, err
		}
		encoded, err := x509.MarshalPKCS8PrivateKey(own)
		if err != nil {
			return files, err
		}
		return files, writePEM(files.Key, "PRIVATE KEY", encoded)
	}
	if client, err = issue("client", 2, x509.ExtKeyUsageClientAuth); err != nil {
		return client, server, err
	}
	server, err = issue("server", 3, x509.ExtKeyUsageServerAuth)
	return client, server, err
}

// sign makes a key and a certificate for it. Without the key of an authority
// the certificate is signed by its own.
func sign(template, authority *x509.Certificate, by *ecdsa.PrivateKey) (*ecdsa.PrivateKey, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	if by == nil {
		by = key
	}
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour)
	der, err := x509.CreateCertificate(rand.Reader, template, authority, key.Public(), by)
	return key, der, err
}

func writePEM(path, kind string, der []byte) error {
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}
