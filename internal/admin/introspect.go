package admin

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
	"github.com/caddy-tollgate/tollgate/internal/apierror"
	"github.com/caddy-tollgate/tollgate/internal/outage"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/token"
)

const (
	introspectPath = "/tollgate/introspect"
	formType       = "application/x-www-form-urlencoded"
)

var (
	errNoIntrospection = apierror.New(http.StatusNotFound, "not_found", "The gate's configuration has no introspection_secret.")
	errNotPost         = apierror.MethodNotAllowed(http.MethodPost)
	errNotIntrospector = apierror.New(http.StatusUnauthorized, "unauthenticated", "Introspection needs the gate's introspection_secret, as a Bearer token or as the password of Basic.").
				With("error", "invalid_client"). // RFC 6749, section 5.2
				WithHeader("WWW-Authenticate", `Bearer realm="tollgate", Basic realm="tollgate"`)
	errNotForm = apierror.New(http.StatusUnsupportedMediaType, "unsupported_media_type", "The body must be "+formType+".")
)

// describeIntrospection adds the operation to the document. Introspection
// serves it.
func describeIntrospection(router huma.API) {
	describe(router, huma.Operation{
		OperationID: "introspect", Method: http.MethodPost, Path: introspectPath, Tags: []string{"introspection"},
		Summary: "Introspect a token (RFC 7662)",
		Description: "Only on the control listener, and only with introspection_secret, which opens nothing else. " +
			"The answer is {\"active\":false} for every token that the gate would refuse. It counts nothing.",
		Security:    []map[string][]string{{"introspection": {}}, {"introspectionBasic": {}}},
		RequestBody: &huma.RequestBody{Required: true, Content: contentOf[api.IntrospectionRequest](router, formType)},
		Errors: []int{
			http.StatusBadRequest, http.StatusUnauthorized, http.StatusNotFound, http.StatusRequestTimeout, http.StatusRequestEntityTooLarge,
			http.StatusUnsupportedMediaType, http.StatusServiceUnavailable,
		},
	}, &huma.Response{Description: "OK", Content: contentOf[api.Introspection](router, "application/json")})
}

// Introspection serves token introspection (RFC 7662) with a secret of its
// own, and passes all other requests to next. Without a secret there is no
// introspection.
func Introspection(next http.Handler, backend Backend, logger *slog.Logger, secret string) http.Handler {
	s := &server{backend: backend, calls: outage.New(logger, slog.LevelError, "introspection failed")}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.EscapedPath() != introspectPath {
			next.ServeHTTP(w, r)
			return
		}
		found, refused := s.introspection(w, r, secret)
		if refused != nil {
			send(w, r, refused)
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
func (s *server) introspection(w http.ResponseWriter, r *http.Request, secret string) (found api.Introspection, refused *apierror.Error) {
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
	opened, err := s.open()
	if err == nil {
		found, err = opened.introspect(r.Context(), text, from)
	}
	if err != nil {
		return found, s.refusal(r.Context(), err)
	}
	s.calls.Worked()
	return found, nil
}

// isIntrospector tells whether a request has the secret, as a Bearer token or
// as the password of Basic with any user. OAuth clients encode that password
// as in a form (RFC 6749, section 2.3.1), other clients do not.
func isIntrospector(r *http.Request, secret string) bool {
	given := []string{bearer(r)}
	if _, password, basic := r.BasicAuth(); basic && len(r.Header.Values("Authorization")) == 1 {
		given = append(given, password)
		if decoded, err := url.QueryUnescape(password); err == nil {
			given = append(given, decoded)
		}
	}
	return haveCommon([]string{secret}, given)
}

// introspectionForm reads the token and the address of the client, which is
// invalid if there is none.
func introspectionForm(w http.ResponseWriter, r *http.Request) (text string, from netip.Addr, refused *apierror.Error) {
	mediaType, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || mediaType != formType || len(r.Header.Values("Content-Type")) != 1 {
		return "", from, errNotForm
	}
	body, refused := readBody(http.MaxBytesReader(w, r.Body, maxBody))
	if refused != nil {
		return "", from, refused
	}
	form, err := url.ParseQuery(string(body))
	switch {
	case err != nil:
		return "", from, invalidRequest("The body is not a form.")
	case len(form["token"]) != 1:
		return "", from, invalidRequest("The form must have the field token once.")
	case len(form["client_ip"]) > 1:
		return "", from, invalidRequest("Duplicate field client_ip.")
	case len(form["client_ip"]) == 1:
		if from, err = netip.ParseAddr(form.Get("client_ip")); err != nil {
			return "", from, invalidRequest("The field client_ip is not an IP address.")
		}
	}
	return form.Get("token"), from.Unmap().WithZone(""), nil
}

// introspect tells what a token may do now. An inactive token is the zero
// Introspection.
func (with *session) introspect(ctx context.Context, text string, from netip.Addr) (found api.Introspection, err error) {
	grant, err := with.confirm(ctx, text)
	if errors.Is(err, store.ErrNoGrant) {
		return found, nil
	}
	if err != nil {
		return found, err
	}
	plan := with.policy.Plan(grant.Plan)
	if !plan.HasAccess() || !allows(grant.Restriction, from) {
		return found, nil
	}
	a, err := with.book.Get(ctx, grant.Account)
	if errors.Is(err, store.ErrNotFound) { // deleted meanwhile
		return found, nil
	}
	if err != nil {
		return found, err
	}
	key, err := a.Live(grant.Key, with.now)
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
func (with *session) confirm(ctx context.Context, text string) (store.Grant, error) {
	if token.IsOwn(text) {
		hash, _, err := token.Parse(text)
		if err != nil {
			return store.Grant{}, store.ErrNoGrant
		}
		return with.book.Confirm(ctx, hash, with.now)
	}
	if !with.policy.ForeignKeys || !token.IsForeign(text) {
		return store.Grant{}, store.ErrNoGrant
	}
	if hash, found := token.SplitPrefix(text); found {
		if grant, err := with.book.Confirm(ctx, hash, with.now); !errors.Is(err, store.ErrNoGrant) {
			return grant, err
		}
	}
	return with.book.Confirm(ctx, token.Foreign(text), with.now)
}
