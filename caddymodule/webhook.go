package caddymodule

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-tollgate/tollgate/caddymodule/event"
	"github.com/caddy-tollgate/tollgate/caddymodule/policy"
)

// Webhook posts events to an HTTP server, as Standard Webhooks
// (https://www.standardwebhooks.com). An event is posted at least once: the
// store keeps it until the server answers with 2xx. The server recognizes
// repetitions by the header webhook-id.
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

// resolve resolves the secret and checks the options. w can be nil.
func (w *Webhook) resolve() (err error) {
	if w == nil {
		return nil
	}
	if w.Secret, err = caddy.NewReplacer().ReplaceOrErr(w.Secret, true, true); err != nil {
		return &policy.Error{Subject: "webhook secret", Err: errors.New("empty or unknown placeholder")}
	}
	if err := w.check(); err != nil {
		return err
	}
	w.key, err = webhookKey(w.Secret)
	return err
}

// check checks the options, except a secret with a placeholder. w can be nil.
func (w *Webhook) check() error {
	if w == nil {
		return nil
	}
	errs := []error{w.checkURL()}
	if !strings.Contains(w.Secret, "{") {
		_, err := webhookKey(w.Secret)
		errs = append(errs, err)
	}
	for i, name := range w.Events {
		var err error
		switch {
		case !slices.Contains(event.Types, name):
			err = fmt.Errorf("unknown event %q: use %s", name, strings.Join(event.Types, ", "))
		case slices.Contains(w.Events[:i], name):
			err = fmt.Errorf("duplicate event %q", name)
		default:
			continue
		}
		errs = append(errs, &policy.Error{Subject: "webhook events", Err: err})
	}
	return errors.Join(errs...)
}

// checkURL checks the URL. Its errors do not contain it: it can have a token.
func (w *Webhook) checkURL() error {
	u, err := url.Parse(w.URL)
	switch {
	case w.URL == "":
		err = errors.New("the URL is required")
	case err != nil:
		err = errors.New("the URL cannot be read: write http:// or https://, a host, and a path")
	case u.Scheme != "http" && u.Scheme != "https":
		err = fmt.Errorf("the URL has the scheme %q: use http or https", u.Scheme)
	case u.Hostname() == "":
		err = errors.New("the URL has no host")
	case u.User != nil:
		err = errors.New("the URL has a user or a password: the receiver verifies the signature instead")
	default:
		return nil
	}
	return &policy.Error{Subject: "webhook", Err: err}
}

// webhookKey reads a secret. Its errors do not contain it.
func webhookKey(secret string) ([]byte, error) {
	text, prefixed := strings.CutPrefix(secret, "whsec_")
	key, err := base64.StdEncoding.Strict().DecodeString(text)
	switch {
	case secret == "":
		err = errors.New("required: write secret <whsec_...> in its block")
	case !prefixed || err != nil:
		err = errors.New("write whsec_ and Base64")
	case len(key) < minWebhookKey || len(key) > maxWebhookKey:
		err = fmt.Errorf("%d bytes, use %d to %d", len(key), minWebhookKey, maxWebhookKey)
	default:
		return key, nil
	}
	return nil, &policy.Error{Subject: "webhook secret", Err: err}
}

// wants tells whether events of a type are posted. w can be nil.
func (w *Webhook) wants(kind string) bool {
	return w != nil && (len(w.Events) == 0 || slices.Contains(w.Events, kind))
}

// webhook parses
//
//	webhook <url> {
//		secret <whsec_...>
//		events <names...>
//	}
func (p *parser) webhook(args []string) error {
	w := &Webhook{URL: args[0]}
	p.app.Webhook = w
	return p.block("webhook ", map[string]option{
		"secret": {syntax: "secret <whsec_...>", args: 1, parse: setText(&w.Secret)},
		"events": {syntax: "events <names...>", args: someArgs, parse: func(names []string) error {
			w.Events = names
			return nil
		}},
	})
}
