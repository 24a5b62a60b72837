// Package client is the client of a gate's control API.
//
// A Client uses the control listener with its secret, or Caddy's admin
// endpoint over a transport of the caller. A refusal of the gate is an
// *api.Error; see errors.As. Without an answer of a gate, the error is
// ErrUnreachable.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/caddy-tollgate/tollgate/caddymodule/assertion"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/internal/apierror"
	"github.com/caddy-tollgate/tollgate/internal/outage"
)

// maxAnswer is the maximum size of an answer, in bytes. The largest one of a
// gate is a usage document with a hundred long paths, but for maxCounts.
const maxAnswer = 8 << 20

const jsonType = "application/json"

// ErrUnreachable is returned when no gate answers: nothing listens at the
// address, the context ends, or another server answers. The gate may have
// made a change whose answer was lost.
var ErrUnreachable = errors.New("the gate is unreachable")

// ErrOther is returned with ErrUnreachable when another server answers.
var ErrOther = errors.New("the answer is not that of a gate")

// Client is the client of one gate. It is safe for concurrent use. Only the
// contexts of its methods limit their time.
type Client struct {
	base   string
	secret string
	http   *http.Client
}

// Option changes how a Client reaches its gate.
type Option func(*Client)

// WithTransport sends requests through another transport, for example over a
// Unix socket. The default transport ignores the proxy settings of the
// environment: a proxy must not see the secret.
func WithTransport(transport http.RoundTripper) Option {
	return func(c *Client) { c.http.Transport = transport }
}

// New returns a client of the gate at a base URL, for example
// "http://127.0.0.1:8081". With an empty secret, it sends none.
func New(base, secret string, options ...Option) (*Client, error) {
	u, err := url.Parse(base)
	if err != nil {
		return nil, errors.New("parsing the gate's address: not a URL")
	}
	if (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("the gate's address %q is not of the form http://host:port", u.Redacted())
	}
	c := &Client{base: strings.TrimSuffix(u.String(), "/"), secret: secret, http: &http.Client{
		Transport: &http.Transport{
			MaxIdleConns:        64,
			MaxIdleConnsPerHost: 64,
			IdleConnTimeout:     90 * time.Second,
		},
		CheckRedirect: refuseRedirect,
	}}
	for _, option := range options {
		option(c)
	}
	return c, nil
}

// refuseRedirect follows no redirect: a gate sends none, and another server
// must not get the secret.
func refuseRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// call makes one call of an operation.
func call[In, Out any](ctx context.Context, c *Client, row api.Operation[In, Out], in In) (out Out, err error) {
	got, err := send(ctx, c, row, in, maxAnswer)
	if err == nil {
		err = got.decode(&out)
	}
	return out, err
}

// answer is a complete response.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// send sends the request of an operation and reads the response, whatever its
// status is. most is the maximum size of the answer.
func send[In, Out any](ctx context.Context, c *Client, row api.Operation[In, Out], in In, most int) (got answer, err error) {
	target, content, err := write(row.Path, in)
	if err != nil {
		return got, err
	}
	var body io.Reader
	mediaType := ""
	if content != nil {
		text, err := json.Marshal(content)
		if err != nil {
			return got, fmt.Errorf("encoding the request: %w", err)
		}
		body, mediaType = bytes.NewReader(text), jsonType
	}
	request, err := c.request(ctx, row.Method, target, body, mediaType)
	if err != nil {
		return got, err
	}
	response, err := c.http.Do(request)
	if err != nil {
		return got, lost(err)
	}
	defer response.Body.Close()
	return read(response, most)
}

// read reads the whole body of a response. A gate whose answer is too long is
// not unreachable.
func read(response *http.Response, most int) (got answer, err error) {
	body, err := io.ReadAll(io.LimitReader(response.Body, int64(most)+1))
	switch {
	case err != nil:
		return got, lost(err)
	case len(body) > most:
		return got, fmt.Errorf("the answer of the gate is longer than %d MiB", most>>20)
	}
	return answer{response.StatusCode, response.Header, body}, nil
}

// is tells whether an answer has one of the media types.
func (a answer) is(mediaTypes ...string) bool {
	mediaType, _, err := mime.ParseMediaType(a.header.Get("Content-Type"))
	return err == nil && slices.Contains(mediaTypes, mediaType)
}

// decode reads an answer. Another server at the address can answer anything
// with 200.
func (a answer) decode(out any) error {
	_, empty := out.(*api.None)
	switch {
	case a.status >= http.StatusBadRequest:
		return a.refusal()
	case empty && a.status == http.StatusNoContent:
		return nil
	case empty, a.status >= http.StatusMultipleChoices, !a.is(jsonType, assertion.KeySetType):
		return a.other()
	}
	if err := json.Unmarshal(a.body, out); err != nil || !isComplete(reflect.ValueOf(out).Elem()) {
		return a.other()
	}
	return nil
}

// request returns a request with a body of a media type, or without one.
func (c *Client) request(ctx context.Context, method, target string, body io.Reader, mediaType string) (*http.Request, error) {
	request, err := http.NewRequestWithContext(ctx, method, c.base+target, body)
	if err != nil {
		return nil, fmt.Errorf("building the request: %w", err)
	}
	request.Header.Set("Accept", jsonType)
	if mediaType != "" {
		request.Header.Set("Content-Type", mediaType)
	}
	why := textOf(ctx, reason{})
	if !httpguts.ValidHeaderFieldValue(why) {
		return nil, api.ErrInvalidReason
	}
	for name, value := range map[string]string{api.ActorHeader: textOf(ctx, actor{}), api.ReasonHeader: why} {
		if value != "" && method != http.MethodGet {
			request.Header.Set(name, value)
		}
	}
	if c.secret != "" {
		request.Header.Set("Authorization", "Bearer "+c.secret)
	}
	return request, nil
}

// lost is unreachable for an error of the transport, whose text can quote
// another server.
func lost(err error) error {
	var in *panicError
	if errors.As(err, &in) {
		return unreachable(in)
	}
	return unreachable(outage.Remote(err))
}

// other is the error of an answer that no gate sends.
func (a answer) other() error {
	mediaType, _, err := mime.ParseMediaType(a.header.Get("Content-Type"))
	if err != nil {
		mediaType = "no media type"
	}
	return unreachable(fmt.Errorf("%w, but has status %d and %s. Is the address that of tollgate_control, or of the admin endpoint of a Caddy with a gate?", ErrOther, a.status, mediaType))
}

// unreachable wraps err.
func unreachable(err error) error { return fmt.Errorf("%w: %w", ErrUnreachable, err) }

// refusal decodes a refusal. It keeps Retry-After for callers that send the
// refusal on.
func (a answer) refusal() error {
	refused := &apierror.Error{Status: a.status}
	if !a.is(jsonType) || json.Unmarshal(a.body, refused) != nil {
		return a.other()
	}
	if after := a.header.Get("Retry-After"); after != "" {
		refused = refused.WithHeader("Retry-After", after)
	}
	return refused
}
