package outage

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
)

// The reasons of Remote for errors that can quote the other server.
var (
	errNoAnswer    = errors.New("no valid HTTP answer")
	errCertificate = errors.New("the certificate is not valid")
	errAuthority   = errors.New("the certificate is signed by an unknown authority")
	errHost        = errors.New("the certificate is for another host")
)

// Remote returns why an HTTP request got no answer, for a log or for an
// operator. The errors of net/http quote what the other server wrote, such as
// a header that is malformed, and the URL, which can have a token. The result
// has neither.
func Remote(err error) error {
	var (
		op        *net.OpError
		timeout   net.Error
		host      x509.HostnameError
		authority x509.UnknownAuthorityError
		invalid   x509.CertificateInvalidError
	)
	for _, known := range []error{context.Canceled, context.DeadlineExceeded, io.ErrUnexpectedEOF, io.EOF, http.ErrSchemeMismatch} {
		if errors.Is(err, known) {
			return known
		}
	}
	switch {
	case err == nil:
		return nil
	case errors.As(err, &op) && op.Op == "proxyconnect":
		return fmt.Errorf("connecting to the proxy: %w", Remote(op.Err))
	case op != nil:
		return op
	case errors.As(err, &timeout) && timeout.Timeout():
		return context.DeadlineExceeded
	case errors.As(err, &host):
		return errHost
	case errors.As(err, &authority):
		return errAuthority
	case errors.As(err, &invalid):
		return errCertificate
	}
	return errNoAnswer
}
