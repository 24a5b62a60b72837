package caddymodule

import (
	"errors"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/caddy-tollgate/tollgate/internal/block"
	"github.com/caddy-tollgate/tollgate/internal/secret"
)

// resolveSecrets replaces the placeholders of all secrets.
func (a *App) resolveSecrets() error {
	secrets := map[string]*string{"secret": &a.Secret, "old_secret": &a.OldSecret, "introspection_secret": &a.IntrospectionSecret, "take_secret": &a.TakeSecret}
	if a.Webhook != nil {
		secrets["webhook secret"] = &a.Webhook.Secret
	}
	if a.Feed != nil {
		secrets["feed token"] = &a.Feed.Token
	}
	var errs []error
	for option, text := range secrets {
		hint := ", as in " + secret.New
		if option == "webhook secret" || option == "feed token" {
			hint = "" // it has another form
		}
		resolved, err := block.Resolve(*text, hint, nil)
		if err != nil {
			errs = append(errs, mistake(option, "%w", err))
		}
		*text = resolved
	}
	return errors.Join(errs...)
}

// checkSecrets validates the secrets that are sent in a header. Only secret is
// required.
func (a *App) checkSecrets(written bool) error {
	var errs []error
	check := func(option, text string) {
		if written && strings.Contains(text, "}") {
			return
		}
		if err := secret.Check(text); err != nil {
			errs = append(errs, mistake(option, "%w", err))
		}
	}
	check("secret", a.Secret)
	if a.OldSecret != "" {
		check("old_secret", a.OldSecret)
	}
	others := []string{a.Secret, a.OldSecret}
	for _, own := range []struct{ option, text string }{{"introspection_secret", a.IntrospectionSecret}, {"take_secret", a.TakeSecret}} {
		switch {
		case own.text == "" || written && strings.Contains(own.text, "}"):
		case slices.Contains(others, own.text):
			errs = append(errs, mistake(own.option, "the same as another secret: it must open nothing else"))
		default:
			check(own.option, own.text)
		}
		others = append(others, own.text)
	}
	return errors.Join(errs...)
}

// warnOfWeakSecrets logs which secrets are not random by their form.
func (a *App) warnOfWeakSecrets() {
	for option, text := range map[string]string{"secret": a.Secret, "old_secret": a.OldSecret} {
		if text != "" && !secret.IsRandom(text) {
			a.log.Warn("the secret may be weak: anyone can test guesses with the public key of assertions; use 64 random hexadecimal digits",
				zap.String("option", option))
		}
	}
}
