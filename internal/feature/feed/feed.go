// Package feed sends what accounts call to a system that bills it, such as
// OpenMeter, Lago or Metronome.
//
// A message has the sums of an account, an endpoint and a day, as the export has
// them, so only the newest message counts: messages that are lost, repeated or late
// change nothing. There is no queue: the store has what was sent last, and a Feeder
// sends what differs from it.
package feed

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/outage"
	"github.com/caddy-tollgate/tollgate/internal/policy"
)

// Feed is where usage goes to.
type Feed struct {
	// URL is where messages are posted to, at most 100 at once. Required.
	// Redirects are not followed.
	URL string `json:"url,omitempty"`

	// Format is that of the receiver: cloudevents, which OpenMeter takes, lago or
	// metronome. Required.
	Format string `json:"format,omitempty"`

	// Token is sent as Authorization: Bearer. Required for lago and metronome.
	// Placeholders such as {env.TOLLGATE_FEED_TOKEN} are resolved when the
	// configuration is loaded.
	Token string `json:"token,omitempty"`

	// Every is how often the gate posts what is new, at least 1s. If the receiver
	// fails, the gate tries again after 2 seconds, then after waits that double up
	// to 15 minutes. Default: 5m.
	Every policy.Duration `json:"every,omitempty"`

	transport *http.Transport
	// to names the receiver in the store, without the query of the URL.
	to string
}

// Check checks the options, and makes f able to post. written says that a token
// with a placeholder has no value yet. f can be nil.
func (f *Feed) Check(written bool) error {
	if f == nil {
		return nil
	}
	var errs []error
	mistake := func(option, format string, args ...any) {
		errs = append(errs, &policy.Error{Subject: strings.TrimSpace("feed " + option), Err: fmt.Errorf(format, args...)})
	}
	if err := outage.CheckURL(f.URL, "write token <text> in its block"); err != nil {
		mistake("", "%w", err)
	}
	switch hidden := written && strings.Contains(f.Token, "}"); {
	case f.Format == "":
		mistake("format", "required: write format cloudevents, lago or metronome in its block")
	case formats[f.Format] == nil:
		mistake("format", "unknown format %q: use cloudevents, lago or metronome", f.Format)
	case f.Token == "" && f.Format != cloudEvents:
		mistake("token", "required by the format %s: write token <text> in its block", f.Format)
	case !hidden && strings.ContainsFunc(f.Token, func(r rune) bool { return r <= ' ' || r > '~' }):
		mistake("token", "use printable ASCII characters without spaces")
	}
	if f.every() < time.Second {
		mistake("every", "%s is shorter than a second", f.every())
	}
	address, _, _ := strings.Cut(f.URL, "?")
	sum := sha256.Sum256([]byte(f.Format + " " + address))
	f.to, f.transport = hex.EncodeToString(sum[:4]), outage.NewTransport(1)
	return errors.Join(errs...)
}

func (f *Feed) every() time.Duration {
	return time.Duration(cmp.Or(f.Every, policy.Duration(5*time.Minute)))
}

// Close closes the connections of f that no post uses. f can be nil.
func (f *Feed) Close() {
	if f != nil && f.transport != nil {
		f.transport.CloseIdleConnections()
	}
}

// post posts messages. See outage.Post for its errors.
func (f *Feed) post(ctx context.Context, list []*message) error {
	kind, value := formats[f.Format](list)
	body, err := json.Marshal(value)
	if err != nil {
		return err
	}
	headers := map[string]string{"Content-Type": kind}
	if f.Token != "" {
		headers["Authorization"] = "Bearer " + f.Token
	}
	return outage.Post(ctx, f.transport, f.URL, body, headers)
}
