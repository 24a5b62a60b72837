package admin

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/caddy-tollgate/tollgate/caddymodule/assertion"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/internal/apierror"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
)

var errNoSite = apierror.New(http.StatusConflict, "no_site", "The gate has no address for links: set the option site of the gate to the address of the web pages.")

// PortalLink makes a link that opens the web pages of an account at a site. It is
// in the query: an access log can leave queries out, and no page needs a script
// to read it. The error is a refusal if site is nil.
func PortalLink(signer *assertion.Signer, site *url.URL, account string, now time.Time) (api.Portal, error) {
	if site == nil {
		return api.Portal{}, errNoSite
	}
	link := site.JoinPath(assertion.PortalPath)
	text, expires := signer.Portal(link.String(), account, now)
	link.RawQuery = url.Values{"link": {text}}.Encode()
	return api.Portal{URL: link.String(), ExpiresAt: expires}, nil
}

func (s *server) registerPortal(router huma.API) {
	huma.Register(router, operation(huma.Operation{
		OperationID: "create-portal-link", Method: http.MethodPost, Path: "/tollgate/accounts/{account}/portal", Tags: []string{"accounts"}, DefaultStatus: http.StatusCreated,
		Summary: "Make a link that opens the web pages of an account",
		Description: "It signs a person in to Settings and My usage of this account, without an e-mail and a password. It works once, for 5 minutes. " +
			"Send it only to a person who may see the account, for example as the redirect of a page that needs a sign-in.",
	}, http.StatusForbidden, http.StatusConflict), answer(s, s.createPortalLink))
}

// createPortalLink returns a link once it is in the audit log.
func (s *server) createPortalLink(ctx context.Context, with *session, in *accountInput) (api.Portal, error) {
	link, err := s.backend.Portal(string(in.Account), with.now)
	if err != nil {
		return link, err
	}
	err = with.change(ctx, string(in.Account), func(a *book.Account) error {
		switch {
		case !a.Exists:
			return store.ErrNotFound
		case a.Disabled:
			return errAccountDisabled
		}
		with.record(ctx, a, api.PortalCreate, "", nil, nil)
		return nil
	})
	return link, err
}
