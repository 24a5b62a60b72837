// Package portal makes links that open the web pages of an account.
package portal

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/assertion"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/internal/admin"
	"github.com/caddy-tollgate/tollgate/internal/apierror"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
)

var errNoSite = apierror.New(http.StatusConflict, "no_site", "The gate has no address for links: set the option site of the gate to the address of the web pages.")

// Link makes a link that opens the web pages of an account at a site. It is
// in the query: an access log can leave queries out, and no page needs a script
// to read it. The error is a refusal if site is nil.
func Link(signer *assertion.Signer, site *url.URL, account string, now time.Time) (api.Portal, error) {
	if site == nil {
		return api.Portal{}, errNoSite
	}
	link := site.JoinPath(assertion.PortalPath)
	text, expires := signer.Portal(link.String(), account, now)
	link.RawQuery = url.Values{"link": {text}}.Encode()
	return api.Portal{URL: link.String(), ExpiresAt: expires}, nil
}

// Linker makes links.
type Linker interface {
	// Portal makes a link that opens the web pages of an account: see Link.
	Portal(account string, now time.Time) (api.Portal, error)
}

// Serve adds the operation.
func Serve(s *admin.Server, links Linker) {
	admin.Handle(s, api.CreatePortalLink, func(ctx context.Context, with *admin.Session, in *api.OfAccount) (api.Portal, error) {
		return createLink(ctx, links, with, in.Account)
	})
}

// createLink returns a link once it is in the audit log.
func createLink(ctx context.Context, links Linker, with *admin.Session, account string) (api.Portal, error) {
	link, err := links.Portal(account, with.Now)
	if err != nil {
		return link, err
	}
	err = with.Change(ctx, account, func(a *book.Account) error {
		switch {
		case !a.Exists:
			return store.ErrNotFound
		case a.Disabled:
			return admin.ErrAccountDisabled
		}
		with.Record(ctx, a, api.PortalCreate, "", nil, nil)
		return nil
	})
	return link, err
}
