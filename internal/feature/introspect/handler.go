// Package introspect tells other programs what a token may do (RFC 7662).
package introspect

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"mime"
	"net/http"
	"net/netip"
	"net/url"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/internal/admin"
	"github.com/caddy-tollgate/tollgate/internal/apierror"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/token"
)

const formType = "application/x-www-form-urlencoded"

var (
	errNoIntrospection = apierror.New(http.StatusNotFound, "not_found", "The gate's configuration has no introspection_secret.")
	errNotPost         = apierror.MethodNotAllowed(http.MethodPost)
	errNotIntrospector = apierror.New(http.StatusUnauthorized, "unauthenticated", "Introspection needs the gate's introspection_secret, as a Bearer token or as the password of Basic.").
				With("error", "invalid_client"). // RFC 6749, section 5.2
				WithHeader("WWW-Authenticate", `Bearer realm="tollgate", Basic realm="tollgate"`)
	errNotForm = apierror.New(http.StatusUnsupportedMediaType, "unsupported_media_type", "The body must be "+formType+".")
)

// Gate has the secret of introspection, "" for no introspection.
type Gate interface {
	admin.Backend
	IntrospectionSecret() string
}

// Serve adds the operation to the document. Handler serves it.
func Serve(s *admin.Server) {
	admin.Describe(s, api.Introspect, admin.Described{
		In: []string{formType}, Out: []string{"application/json"}, OutText: "OK",
		Security: []map[string][]string{{"introspection": {}}, {"introspectionBasic": {}}},
		Tag:      &huma.Tag{Name: api.Introspect.Tag, Description: "What a token may do, for other programs (RFC 7662)."},
		Schemes: map[string]*huma.SecurityScheme{
			"introspection":      {Type: "http", Scheme: "bearer", Description: "The introspection_secret of the gate."},
			"introspectionBasic": {Type: "http", Scheme: "basic", Description: "The introspection_secret of the gate as the password, with any user."},
		},
	})
}

// Handler serves token introspection (RFC 7662) with a secret of its
// own, and passes all other requests to next. Without a secret there is no
// introspection.
func Handler(next http.Handler, of Gate, logger *slog.Logger) http.Handler {
	s, secret := admin.Unserved(of, logger, "introspection failed"), of.IntrospectionSecret()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.EscapedPath() != api.Introspect.Path {
			next.ServeHTTP(w, r)
			return
		}
		found, refused := introspection(w, r, s, secret)
		if refused != nil {
			admin.Send(w, r, refused)
			return
		}
		h := w.Header()
		h.Set("Content-Type", "application/json")
		h.Set("Cache-Control", "no-store")
		h.Set("X-Content-Type-Options", "nosniff")
		// The client is gone if this fails; ignore the error.
		_ = json.NewEncoder(w).Encode(found)
	})
}

// introspection answers a request.
func introspection(w http.ResponseWriter, r *http.Request, s *admin.Server, secret string) (found api.Introspection, refused *apierror.Error) {
	switch {
	case secret == "":
		return found, errNoIntrospection
	case r.Method != http.MethodPost:
		return found, errNotPost
	case !isIntrospector(r, secret):
		return found, errNotIntrospector
	}
	text, from, refused := introspectionForm(w, r)
	if refused != nil {
		return found, refused
	}
	opened, err := s.Open()
	if err == nil {
		found, err = introspect(r.Context(), opened, text, from)
	}
	return found, s.Refusal(r.Context(), err)
}

// isIntrospector tells whether a request has the secret, as a Bearer token or
// as the password of Basic with any user. OAuth clients encode that password
// as in a form (RFC 6749, section 2.3.1), other clients do not.
func isIntrospector(r *http.Request, secret string) bool {
	given := []string{admin.Bearer(r)}
	if _, password, basic := r.BasicAuth(); basic && len(r.Header.Values("Authorization")) == 1 {
		given = append(given, password)
		if decoded, err := url.QueryUnescape(password); err == nil {
			given = append(given, decoded)
		}
	}
	return admin.HaveCommon([]string{secret}, given)
}

// introspectionForm reads the token and the address of the client, which is
// invalid if there is none.
func introspectionForm(w http.ResponseWriter, r *http.Request) (text string, from netip.Addr, refused *apierror.Error) {
	mediaType, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || mediaType != formType || len(r.Header.Values("Content-Type")) != 1 {
		return "", from, errNotForm
	}
	body, refused := admin.ReadBody(http.MaxBytesReader(w, r.Body, admin.MaxBody))
	if refused != nil {
		return "", from, refused
	}
	form, err := url.ParseQuery(string(body))
	switch {
	case err != nil:
		return "", from, admin.InvalidRequest("The body is not a form.")
	case len(form["token"]) != 1:
		return "", from, admin.InvalidRequest("The form must have the field token once.")
	case len(form["client_ip"]) > 1:
		return "", from, admin.InvalidRequest("Duplicate field client_ip.")
	case len(form["client_ip"]) == 1:
		if from, err = netip.ParseAddr(form.Get("client_ip")); err != nil {
			return "", from, admin.InvalidRequest("The field client_ip is not an IP address.")
		}
	}
	return form.Get("token"), from.Unmap().WithZone(""), nil
}

// introspect tells what a token may do now. An inactive token is the zero
// Introspection.
func introspect(ctx context.Context, with *admin.Session, text string, from netip.Addr) (found api.Introspection, err error) {
	grant, err := confirm(ctx, with, text)
	if errors.Is(err, store.ErrNoGrant) {
		return found, nil
	}
	if err != nil {
		return found, err
	}
	grant = grant.At(with.Now)
	plan := with.Policy.Plan(grant.Plan)
	if !plan.HasAccess() || !allows(grant.Restriction, from) {
		return found, nil
	}
	a, err := with.Book.Get(ctx, grant.Account)
	if errors.Is(err, store.ErrNotFound) { // deleted meanwhile
		return found, nil
	}
	if err != nil {
		return found, err
	}
	key, err := a.Live(grant.Key, with.Now)
	if err != nil || a.Disabled { // revoked or disabled meanwhile
		return found, nil
	}
	found = api.Introspection{
		Active: true, Scope: new(plan.Effective(grant.Abilities).Abilities), Sub: grant.Account, ClientID: grant.Key,
		Iat: key.CreatedAt.Unix(), TokenType: "Bearer", Plan: grant.Plan,
	}
	if !key.ExpiresAt.IsZero() {
		found.Exp = key.ExpiresAt.Unix()
	}
	return found, nil
}

// allows tells whether the restriction of a key allows an address. An invalid
// address is in no network.
func allows(own *store.Restriction, from netip.Addr) bool {
	return own == nil || len(own.Addresses) == 0 ||
		slices.ContainsFunc(own.Addresses, func(network netip.Prefix) bool { return network.Contains(from) })
}

// confirm returns what a token grants. It looks up a token that the gate did
// not make in the order of the gate: from behind its prefix, and then whole.
func confirm(ctx context.Context, with *admin.Session, text string) (store.Grant, error) {
	if hash, err := token.Parse(text); err == nil {
		return with.Book.Confirm(ctx, hash, with.Now)
	}
	if !with.Policy.ForeignKeys || !token.IsForeign(text) {
		return store.Grant{}, store.ErrNoGrant
	}
	if hash, found := token.SplitPrefix(text); found {
		if grant, err := with.Book.Confirm(ctx, hash, with.Now); !errors.Is(err, store.ErrNoGrant) {
			return grant, err
		}
	}
	return with.Book.Confirm(ctx, token.Foreign(text), with.Now)
}
