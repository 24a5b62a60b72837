package caddymodule

import (
	"errors"
	"strings"

	"go.uber.org/zap"

	"github.com/caddy-tollgate/tollgate/internal/block"
	"github.com/caddy-tollgate/tollgate/internal/secret"
)

// resolveSecrets replaces the placeholders of all secrets.
func (a *App) resolveSecrets() error {
	secrets := map[string]*string{"secret": &a.Secret, "old_secret": &a.OldSecret, "introspection_secret": &a.IntrospectionSecret}
	if a.Webhook != nil {
		secrets["webhook secret"] = &a.Webhook.Secret
	}
	var errs []error
	for option, text := range secrets {
		hint := ", as in " + secret.New
		if option == "webhook secret" {
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
	switch s := a.IntrospectionSecret; {
	case s == "" || written && strings.Contains(s, "}"):
	case s == a.Secret || s == a.OldSecret:
		errs = append(errs, mistake("introspection_secret", "the same as another secret: it must open nothing else"))
	default:
		check("introspection_secret", s)
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
