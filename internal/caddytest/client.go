package caddytest

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// Client asks the sites in force, wherever they listen. It follows no redirects.
type Client struct{ *http.Client }

// NewClient returns a client.
func NewClient() *Client {
	return &Client{&http.Client{
		Timeout:       time.Minute,
		Transport:     &http.Transport{DialContext: Dial, DisableCompression: true, MaxIdleConnsPerHost: 64},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Load loads a Caddyfile, and closes the connections to the one before.
func (c *Client) Load(text string) error {
	defer c.CloseIdleConnections()
	return Load(text)
}

// Dial connects to where the first site listens now.
func Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	app, err := caddy.ActiveContext().AppIfConfigured("http")
	if err != nil {
		return nil, err
	}
	for _, server := range app.(*caddyhttp.App).Servers {
		for _, listener := range server.Listeners() {
			address := listener.Addr()
			return new(net.Dialer).DialContext(ctx, address.Network(), address.String())
		}
	}
	return nil, errors.New("no site listens")
}

// Answer is a response that was read to its end.
type Answer struct {
	Status int
	Header http.Header
	Body   string
}

// Code is the stable word of a refusal.
func Code(body string) string {
	var refusal struct{ Code string }
	if json.Unmarshal([]byte(body), &refusal) != nil {
		return ""
	}
	return refusal.Code
}

// Try sends a request; headers are "Name: value".
func (c *Client) Try(ctx context.Context, method, target, body string, headers ...string) (Answer, error) {
	if strings.HasPrefix(target, "/") {
		target = "http://gate.test" + target
	}
	r, err := http.NewRequestWithContext(ctx, method, target, strings.NewReader(body))
	if err != nil {
		return Answer{}, err
	}
	for _, line := range headers {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Add(name, value)
	}
	response, err := c.Do(r)
	if err != nil {
		return Answer{}, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return Answer{response.StatusCode, response.Header, string(text)}, err
}

// Ask is Try that must not fail. A server that stops may close a connection that it
// has not read from yet, as HTTP allows: no handler saw the request.
func (c *Client) Ask(t testing.TB, method, target, body string, headers ...string) Answer {
	t.Helper()
	got, err := c.Try(t.Context(), method, target, body, headers...)
	for again := 0; again < 3 && (errors.Is(err, syscall.ECONNRESET) || errors.Is(err, io.EOF)); again++ {
		c.CloseIdleConnections()
		got, err = c.Try(t.Context(), method, target, body, headers...)
	}
	if err != nil {
		t.Fatalf("%s %s: %v", method, target, err)
	}
	return got
}

// Open writes bytes to a connection of its own.
func Open(t testing.TB, request string) net.Conn {
	t.Helper()
	conn, err := Dial(t.Context(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatalf("writing: %v", err)
	}
	return conn
}
