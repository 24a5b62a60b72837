package event

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/caddy-tollgate/tollgate/internal/outage"
	"github.com/caddy-tollgate/tollgate/internal/policy"
	"github.com/caddy-tollgate/tollgate/internal/store"
)

// Webhook posts events to an HTTP server at least once, as Standard Webhooks
// (https://www.standardwebhooks.com).
type Webhook struct {
	// URL is where events are posted to. Required. Redirects are not
	// followed.
	URL string `json:"url,omitempty"`

	// Secret signs the events: whsec_ and 24 to 64 bytes in Base64.
	// Required. Placeholders such as {env.TOLLGATE_WEBHOOK_SECRET} are
	// resolved when the configuration is loaded.
	Secret string `json:"secret,omitempty"`

	// Events are the types of the events to post, such as
	// tollgate.quota_exceeded. Default: all.
	Events []string `json:"events,omitempty"`

	signer    *standardwebhooks.Webhook
	transport *http.Transport
}

// The length of the key of a webhook in bytes, by Standard Webhooks.
const minWebhookKey, maxWebhookKey = 24, 64

// Check checks the options, and makes w able to post. written says that a secret
// with a placeholder has no value yet. w can be nil.
func (w *Webhook) Check(written bool) error {
	if w == nil {
		return nil
	}
	errs := []error{w.checkURL()}
	if !written || !strings.Contains(w.Secret, "}") {
		errs = append(errs, w.prepare())
	}
	for i, name := range w.Events {
		switch {
		case !slices.Contains(Types, name):
			errs = append(errs, mistake("webhook events", "unknown event %q: use %s", name, strings.Join(Types, ", ")))
		case slices.Contains(w.Events[:i], name):
			errs = append(errs, mistake("webhook events", "duplicate event %q", name))
		}
	}
	return errors.Join(errs...)
}

// checkURL checks the URL. Its errors do not contain it: it can have a token.
func (w *Webhook) checkURL() error {
	u, err := url.Parse(w.URL)
	switch {
	case w.URL == "":
		return mistake("webhook", "the URL is required")
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return mistake("webhook", "the URL cannot be used: write http:// or https://, a host, and a path")
	case u.User != nil:
		return mistake("webhook", "the URL has a user or a password: the receiver verifies the signature instead")
	}
	return nil
}

// prepare reads the secret. Its errors do not contain it.
func (w *Webhook) prepare() (err error) {
	text, prefixed := strings.CutPrefix(w.Secret, "whsec_")
	key, err := base64.StdEncoding.Strict().DecodeString(text)
	switch {
	case w.Secret == "":
		return mistake("webhook secret", "required: write secret <whsec_...> in its block")
	case !prefixed || err != nil:
		return mistake("webhook secret", "write whsec_ and Base64")
	case len(key) < minWebhookKey || len(key) > maxWebhookKey:
		return mistake("webhook secret", "%d bytes, use %d to %d", len(key), minWebhookKey, maxWebhookKey)
	}
	// The settings of Go include a proxy from the environment, which Caddy's
	// reverse_proxy uses, too.
	w.transport = http.DefaultTransport.(*http.Transport).Clone()
	w.transport.MaxIdleConnsPerHost = atOnce
	w.transport.MaxResponseHeaderBytes = maxAnswer
	w.signer, err = standardwebhooks.NewWebhookRaw(key)
	return err
}

// mistake returns an error of an option.
func mistake(subject, format string, args ...any) error {
	return &policy.Error{Subject: subject, Err: fmt.Errorf(format, args...)}
}

// Wants tells whether events of a type are posted. w can be nil.
func (w *Webhook) Wants(kind string) bool {
	return w != nil && (len(w.Events) == 0 || slices.Contains(w.Events, kind))
}

// Close closes the connections of w that no post uses. w can be nil.
func (w *Webhook) Close() {
	if w.posts() {
		w.transport.CloseIdleConnections()
	}
}

// posts tells whether w can post: without Check, events wait. w can be nil.
func (w *Webhook) posts() bool { return w != nil && w.signer != nil }

// maxAnswer is how much of an answer is read, so that its connection can
// be used again. Its headers have the same limit: the receiver may be
// hostile, and 64 posts run at once.
const maxAnswer = 64 << 10

// post posts an event. Its errors contain neither the URL nor what the receiver
// wrote. A transport follows no redirects.
func (w *Webhook) post(ctx context.Context, e store.Event, at time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, posting)
	defer cancel()
	signature, err := w.signer.Sign(e.ID, at, e.Body)
	if err != nil {
		return fmt.Errorf("signing: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, w.URL, bytes.NewReader(e.Body))
	if err != nil {
		return errors.New("the URL of the webhook is invalid") // err has the URL
	}
	for name, value := range map[string]string{
		"Content-Type": "application/json", "User-Agent": "Tollgate", standardwebhooks.HeaderWebhookID: e.ID,
		standardwebhooks.HeaderWebhookTimestamp: strconv.FormatInt(at.Unix(), 10), standardwebhooks.HeaderWebhookSignature: signature,
	} {
		request.Header.Set(name, value)
	}
	response, err := w.transport.RoundTrip(request)
	if err != nil {
		return outage.Remote(err)
	}
	defer response.Body.Close()
	// Only the status decides. A body that cannot be read ends the connection.
	_, _ = io.CopyN(io.Discard, response.Body, maxAnswer)
	if response.StatusCode/100 != 2 {
		return fmt.Errorf("the receiver answered %d", response.StatusCode)
	}
	return nil
}
