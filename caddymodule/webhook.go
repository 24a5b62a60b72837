package caddymodule

import (
	"encoding/base64"
	"errors"
	"net/url"
	"slices"
	"strings"

	"github.com/caddy-tollgate/tollgate/internal/feature/event"
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

	key []byte // of the secret
}

// The length of the key of a webhook in bytes, by Standard Webhooks.
const minWebhookKey, maxWebhookKey = 24, 64

// check checks the options, and reads the key of the secret. w can be nil.
func (w *Webhook) check(written bool) error {
	if w == nil {
		return nil
	}
	errs := []error{w.checkURL()}
	if !written || !strings.Contains(w.Secret, "}") {
		var err error
		w.key, err = webhookKey(w.Secret)
		errs = append(errs, err)
	}
	for i, name := range w.Events {
		switch {
		case !slices.Contains(event.Types, name):
			errs = append(errs, mistake("webhook events", "unknown event %q: use %s", name, strings.Join(event.Types, ", ")))
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

// webhookKey reads a secret. Its errors do not contain it.
func webhookKey(secret string) ([]byte, error) {
	text, prefixed := strings.CutPrefix(secret, "whsec_")
	key, err := base64.StdEncoding.Strict().DecodeString(text)
	switch {
	case secret == "":
		return nil, mistake("webhook secret", "required: write secret <whsec_...> in its block")
	case !prefixed || err != nil:
		return nil, mistake("webhook secret", "write whsec_ and Base64")
	case len(key) < minWebhookKey || len(key) > maxWebhookKey:
		return nil, mistake("webhook secret", "%d bytes, use %d to %d", len(key), minWebhookKey, maxWebhookKey)
	}
	return key, nil
}

// wants tells whether events of a type are posted. w can be nil.
func (w *Webhook) wants(kind string) bool {
	return w != nil && (len(w.Events) == 0 || slices.Contains(w.Events, kind))
}
