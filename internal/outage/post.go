package outage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

const (
	// Posting is how long a Post may take.
	Posting = 15 * time.Second
	// maxAnswer is how much of an answer is read, so that its connection can be
	// used again. Its headers have the same limit: the receiver may be hostile.
	maxAnswer = 64 << 10
)

// StatusError is an answer other than 2xx. Its text does not have the Body.
type StatusError struct {
	Status int
	Body   []byte
}

// Error implements error.
func (e *StatusError) Error() string { return fmt.Sprintf("the receiver answered %d", e.Status) }

// CheckURL checks where an option makes the gate post to. Its errors do not contain
// the URL, which can have a token. instead is what an option has for a password.
func CheckURL(text, instead string) error {
	u, err := url.Parse(text)
	switch {
	case text == "":
		return errors.New("the URL is required")
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return errors.New("the URL cannot be used: write http:// or https://, a host, and a path")
	case u.User != nil:
		return errors.New("the URL has a user or a password: " + instead)
	}
	return nil
}

// NewTransport returns a transport for Post. It has the settings of Go, which include
// a proxy from the environment, which Caddy's reverse_proxy uses, too.
func NewTransport(conns int) *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConnsPerHost = conns
	t.MaxResponseHeaderBytes = maxAnswer
	return t
}

// Post posts a body within 15 seconds. Its errors contain neither the URL nor what
// the receiver wrote, apart from StatusError. A transport follows no redirects.
func Post(ctx context.Context, by *http.Transport, to string, body []byte, headers map[string]string) error {
	ctx, cancel := context.WithTimeout(ctx, Posting)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(body))
	if err != nil {
		return errors.New("the URL is invalid") // err has the URL
	}
	request.Header.Set("User-Agent", "Tollgate")
	for name, value := range headers {
		request.Header.Set(name, value)
	}
	response, err := by.RoundTrip(request)
	if err != nil {
		return Remote(err)
	}
	defer response.Body.Close()
	// Only the status decides. A body that cannot be read ends the connection.
	text, _ := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if response.StatusCode/100 != 2 {
		return &StatusError{response.StatusCode, text}
	}
	return nil
}
