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
	files, settings, err := certificate(dir)
	if err != nil {
		t.Fatal(err)
	}
	server, err := launch(setup{
		dir: dir, secret: newSecret(), scheme: "rediss", tls: settings,
		lines: func(own *port) ([]string, error) {
			return dataLines(append([]string{
				"port 0",
				fmt.Sprintf("tls-port %d", own.Number),
				fmt.Sprintf("tls-cert-file %q", files.Cert),
				fmt.Sprintf("tls-key-file %q", files.Key),
				fmt.Sprintf("tls-ca-cert-file %q", files.CA),
				"tls-auth-clients yes",
			}, config...)), nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	end(t, server)
	return server, files
}

// certificate makes a certificate that is signed by itself, for the server and for
// its clients.
func certificate(dir string) (Files, *tls.Config, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Files{}, nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "redistest"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IPAddresses: []net.IP{net.ParseIP("127.0.0.1")},
		NotBefore:   time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
	}
	signed, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return Files{}, nil, err
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return Files{}, nil, err
	}
	files := Files{CA: filepath.Join(dir, "cert.pem"), Cert: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem")}
	if err := writePEM(files.Cert, "CERTIFICATE", signed); err != nil {
		return Files{}, nil, err
	}
	if err := writePEM(files.Key, "PRIVATE KEY", encoded); err != nil {
		return Files{}, nil, err
	}
	roots := x509.NewCertPool()
	own, err := x509.ParseCertificate(signed)
	if err != nil {
		return Files{}, nil, err
	}
	roots.AddCert(own)
	pair := tls.Certificate{Certificate: [][]byte{signed}, PrivateKey: key}
	return files, &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots, Certificates: []tls.Certificate{pair}, ServerName: "127.0.0.1"}, nil
}

func writePEM(path, kind string, der []byte) error {
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}
