package event

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
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

func (w *Webhook) checkURL() error {
	if err := outage.CheckURL(w.URL, "the receiver verifies the signature instead"); err != nil {
		return mistake("webhook", "%w", err)
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
	w.transport = outage.NewTransport(atOnce)
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

// post posts an event. See outage.Post for its errors.
func (w *Webhook) post(ctx context.Context, e store.Event, at time.Time) error {
	signature, err := w.signer.Sign(e.ID, at, e.Body)
	if err != nil {
		return fmt.Errorf("signing: %w", err)
	}
	return outage.Post(ctx, w.transport, w.URL, e.Body, map[string]string{
		"Content-Type": "application/json", standardwebhooks.HeaderWebhookID: e.ID,
		standardwebhooks.HeaderWebhookTimestamp: strconv.FormatInt(at.Unix(), 10), standardwebhooks.HeaderWebhookSignature: signature,
	})
}
