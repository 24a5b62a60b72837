package web

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/assertion"
	"github.com/caddy-tollgate/tollgate/upstream/portal/account"
)

// portalView is the page that asks before it opens a link.
type portalView struct{ Account, Link string }

// portal signs in by a link that the gate made for an account, in place of
// another session of the browser. It asks first if that is a session of another
// account, or if the request is no visit. The answer is the form's POST.
func (s *site) portal(w http.ResponseWriter, r *http.Request) error {
	if r.Method == http.MethodHead { // a program that checks links must not use them up
		w.Header().Set("Allow", http.MethodGet+", "+http.MethodPost)
		return errMethod
	}
	// The address has the link, so other requests get the origin only. With
	// no-referrer, browsers would send "Origin: null" from the form.
	w.Header().Set("Referrer-Policy", "strict-origin")
	asked, link := r.Method == http.MethodPost, r.URL.Query().Get("link")
	if asked {
		link = r.PostForm.Get("link")
	}
	claims, err := s.readLink(link)
	if err != nil {
		return err
	}
	v, err := s.begin(r)
	switch {
	case err != nil && !errors.Is(err, errSignedOut):
		return err
	case asked, isVisit(r.Header) && (v == nil || v.who.ID == claims.Account):
		return s.spendLink(w, r, claims)
	}
	return s.showPortal(w, v, portalView{claims.Account, link})
}

func (s *site) showPortal(w http.ResponseWriter, v *visit, view portalView) error {
	return s.views.show(w, http.StatusOK, "portal", v.page("Open this account?", "", view))
}

// isVisit reports whether a person opens a page. A prefetch, an image or a frame
// is none. Programs and old browsers do not tell.
func isVisit(h http.Header) bool {
	return cmp.Or(h.Get("Sec-Fetch-Mode"), "navigate") == "navigate" && cmp.Or(h.Get("Sec-Fetch-Dest"), "document") == "document" &&
		h.Get("Sec-Purpose")+h.Get("Purpose")+h.Get("X-Moz") == ""
}

// keysFor is how long the keys of the gate are used, so that forged links do not
// keep the gate busy.
const keysFor = 2 * time.Second

// gateKeys are the keys of the gate, or why it did not tell them.
type gateKeys struct {
	mu      sync.Mutex
	fetched time.Time
	set     assertion.KeySet
	err     error
}

// publicKeys returns the keys that the gate had at most keysFor ago.
func (s *site) publicKeys(ctx context.Context) (assertion.KeySet, error) {
	k := s.keyring
	k.mu.Lock()
	defer k.mu.Unlock()
	if s.Now().Sub(k.fetched).Abs() >= keysFor {
		k.set, k.err = s.Gate.PublicKeys(ctx)
		k.fetched = s.Now()
	}
	return k.set, k.err
}

// readLink verifies a link by the keys of the gate: without the gate a link is not
// spent, and those of an old secret end with it. People see one page for all
// reasons why a link does not work.
func (s *site) readLink(link string) (assertion.Claims, error) {
	var failed error
	verifier := assertion.NewVerifier(s.Hosts, s.Now)
	verifier.FetchKeys(s.publicKeys, func(err error) { failed = err })
	claims, err := verifier.Verify(link, assertion.Portal)
	if failed != nil {
		return claims, failed
	}
	return claims, s.refuseLink(err)
}

// refuseLink logs why a link does not work, and returns what people see.
func (s *site) refuseLink(err error) error {
	if err == nil || errors.Is(err, account.ErrDatabase) {
		return err
	}
	s.portals.Failed(slog.Any("error", err))
	return errPortal
}

// spendLink opens a session, once for each link.
func (s *site) spendLink(w http.ResponseWriter, r *http.Request, link assertion.Claims) error {
	err := s.refuseLink(s.Sessions.SpendLink(r.Context(), link.ID, time.Unix(link.ExpiresAt, 0)))
	if err != nil {
		return err
	}
	who, err := s.identify(r.Context(), link.Account, true)
	if err != nil {
		return err
	}
	if err := s.sessions.Open(w, r, who, true); err != nil {
		return err
	}
	redirect(w, keysPath, nil)
	return nil
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
