package web

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/assertion"
	"github.com/caddy-tollgate/tollgate/upstream/account"
)

// portal signs in by a link that the gate made for an account, in place of
// another session of the browser.
func (s *site) portal(w http.ResponseWriter, r *http.Request) error {
	if r.Method != http.MethodGet { // a program that checks links must not use them up
		w.Header().Set("Allow", http.MethodGet)
		return errMethod
	}
	who, err := s.spendLink(r.Context(), r.URL.Query().Get("link"))
	if err != nil {
		return err
	}
	if err := s.sessions.Open(w, r, who, true); err != nil {
		return err
	}
	redirect(w, keysPath, nil)
	return nil
}

// spendLink verifies and spends a link. It fetches the keys of the gate each time:
// without the gate a link is not spent, and those of an old secret end with it.
// People see one page for all reasons why a link does not work.
func (s *site) spendLink(ctx context.Context, link string) (who account.Identity, err error) {
	var failed error
	verifier := assertion.NewVerifier(s.Hosts, s.Now)
	verifier.FetchKeys(s.Gate.PublicKeys, func(err error) { failed = err })
	claims, err := verifier.Verify(link, assertion.Portal)
	if failed != nil {
		return who, failed
	}
	if err == nil {
		err = s.Sessions.SpendLink(ctx, claims.ID, time.Unix(claims.ExpiresAt, 0))
	}
	if err != nil && !errors.Is(err, account.ErrDatabase) {
		s.portals.Failed(slog.Any("error", err))
		err = errPortal
	}
	if err != nil {
		return who, err
	}
	return s.identify(ctx, claims.Account, true)
}

// identify returns the account of a session. A portal link makes no
// operator. An account that only the gate has is Version 0 then.
func (s *site) identify(ctx context.Context, id string, portal bool) (account.Identity, error) {
	who, err := s.Accounts.Identify(ctx, id)
	if portal && (err == nil || errors.Is(err, account.ErrNotFound)) {
		return account.Identity{Account: account.Account{ID: id, Email: account.Email(id)}, Version: who.Version}, nil
	}
	return who, err
}

// noPortal serves a page about e-mail, password or sessions. A portal visit has
// none of them.
func noPortal(h pageHandler) pageHandler {
	return func(w http.ResponseWriter, r *http.Request, v *visit) error {
		if v.session.Portal {
			return errNotFound
		}
		return h(w, r, v)
	}
}
