// Package take counts calls that do not pass through the gate: of workers, queues,
// other proxies and languages.
package take

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/internal/admin"
	"github.com/caddy-tollgate/tollgate/internal/apierror"
	"github.com/caddy-tollgate/tollgate/internal/gate"
	"github.com/caddy-tollgate/tollgate/internal/policy"
)

var (
	errNotProgram = apierror.New(http.StatusUnauthorized, "unauthenticated", "Taking calls needs the gate's take_secret as a Bearer token.").
			WithHeader("WWW-Authenticate", `Bearer realm="tollgate"`)
	errNoSecret  = apierror.New(http.StatusNotFound, "not_found", "The gate's configuration has no take_secret.")
	errWho       = admin.InvalidRequest("The body must have either token or account.")
	errCost      = admin.InvalidRequest("The body must have a cost: what a call to this endpoint reserves follows from its body.")
	errOtherCall = apierror.New(http.StatusConflict, "call_exists", "Another call of the account has this id: to another endpoint, with another key or with another cost.")
	errNoCall    = apierror.New(http.StatusNotFound, "not_found", "There is no such call to settle. A call to an endpoint with cost answer can be settled within an hour.")
	errSettled   = apierror.New(http.StatusConflict, "call_settled", "The call is settled with another cost.")
)

// Gate has the gate that decides, and the secret of programs, "" for none.
type Gate interface {
	admin.Backend
	Options() gate.Options
	TakeSecret() string
}

// Serve adds the operations to the document. Handler serves them.
func Serve(s *admin.Server) {
	opens := admin.Described{
		In: []string{"application/json"}, Out: []string{"application/json"}, OutText: "OK",
		Security: []map[string][]string{{"take": {}}},
		Tag:      &huma.Tag{Name: api.Take.Tag, Description: "Calls that do not pass through the gate."},
		Schemes:  map[string]*huma.SecurityScheme{"take": {Type: "http", Scheme: "bearer", Description: "The take_secret of the gate."}},
	}
	admin.Describe(s, api.Operation[api.Taking, api.Taken](api.Take), opens)
	opens.Tag, opens.Parameters = nil, []*huma.Param{{Name: "call", In: "path", Required: true, Schema: &huma.Schema{Type: huma.TypeString}}}
	admin.Describe(s, api.Operation[api.Settled, api.SettledCall](api.SettleCall), opens)
}

// Handler serves the operations with a secret of their own, and passes all other
// requests to next.
func Handler(next http.Handler, of Gate, logger *slog.Logger) http.Handler {
	secret := of.TakeSecret()
	var own http.Handler
	if secret != "" {
		o := of.Options()
		o.Server = server{o.Server}
		own = newHandler(of, gate.New(o), logger)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := r.URL.EscapedPath()
		switch {
		case path != api.Take.Path && !strings.HasPrefix(path, "/tollgate/calls/"):
			next.ServeHTTP(w, r)
		case secret == "":
			admin.Send(w, r, errNoSecret)
		case !admin.HaveCommon([]string{secret}, []string{admin.Bearer(r)}):
			admin.Send(w, r, errNotProgram)
		default:
			own.ServeHTTP(w, r)
		}
	})
}

func newHandler(of admin.Backend, g *gate.Gate, logger *slog.Logger) http.Handler {
	s := admin.NewPart(of, logger, "taking a call failed")
	admin.Handle(s, api.Take, func(ctx context.Context, with *admin.Session, in *api.TakeRequest) (api.Taken, error) {
		return take(ctx, with.Policy, g, &in.Body)
	})
	admin.Handle(s, api.SettleCall, func(ctx context.Context, _ *admin.Session, in *api.Settlement) (api.SettledCall, error) {
		return api.SettledCall{Call: in.Call, Cost: in.Body.Cost}, refused(g.Settle(request(ctx), in.Call, in.Body.Cost))
	})
	return s.Handler()
}

// request is what the gate uses of the request of a program.
func request(ctx context.Context) *http.Request {
	return (&http.Request{Method: http.MethodPost, URL: new(url.URL), Header: http.Header{}}).WithContext(ctx)
}

func take(ctx context.Context, p *policy.Policy, g *gate.Gate, in *api.Taking) (api.Taken, error) {
	e := p.Endpoint(in.Endpoint)
	switch {
	case e == nil:
		return api.Taken{}, admin.UnknownEndpoint(http.StatusBadRequest, in.Endpoint)
	case (in.Token == "") == (in.Account == ""):
		return api.Taken{}, errWho
	case in.Cost == 0 && e.Answer != nil && e.Answer.Bound != nil:
		return api.Taken{}, errCost
	}
	if in.ClientIP != "" {
		if from, err := netip.ParseAddr(in.ClientIP); err != nil || from.Zone() != "" {
			return api.Taken{}, admin.InvalidAddress(in.ClientIP)
		}
	}
	t, err := g.Take(request(ctx), gate.Taking{Token: in.Token, Account: in.Account, Endpoint: e, Cost: in.Cost, Client: in.ClientIP, ID: in.ID})
	if err != nil {
		return api.Taken{}, refused(err)
	}
	made := api.Taken{
		Admitted: t.Refusal == nil, Account: t.Grant.Account, Plan: t.Grant.Plan, Key: t.Grant.Key, Abilities: strings.Fields(t.Abilities), Call: t.Call,
	}
	for i := range t.Limits {
		left := admin.ShowLimit(p, &t.Limits[i], &t.Rooms[i], t.Cost, t.At, t.Month)
		left.Refuses = left.Refuses && !made.Admitted
		made.Limits = append(made.Limits, left)
	}
	if f := t.Refusal; f != nil {
		if f.Status >= http.StatusInternalServerError { // nothing was decided
			return api.Taken{}, admin.ErrUnavailable
		}
		made.Status, made.Code, made.Message, made.RetryAfter = f.Status, f.Code, f.Message, f.RetryAfter
	}
	return made, nil
}

// refused returns the refusal for an error of the gate.
func refused(err error) error {
	switch {
	case errors.Is(err, gate.ErrOtherCall):
		return errOtherCall
	case errors.Is(err, gate.ErrNoCall):
		return errNoCall
	case errors.Is(err, gate.ErrSettled):
		return errSettled
	}
	return err
}

// server is the web server of calls that do not pass through it.
type server struct{ gate.Server }

// Identified implements gate.Server.
func (server) Identified(*http.Request, *gate.Call) {}

// Ended implements gate.Server.
func (server) Ended(_ *http.Request, _, _ string) {}

// RequestID implements gate.Server.
func (server) RequestID(*http.Request, bool) string { return "" }
