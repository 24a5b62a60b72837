package admin

import (
	"context"
	"errors"
	"net/http"
	"net/netip"

	"github.com/danielgtaylor/huma/v2"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/internal/store"
)

// Question is a request to explain. It has the members of gate.Question.
type Question struct {
	Method, Target string
	Account        *store.Account
	Key            *store.Key
	From           netip.Addr
	Cost           int64
}

type explainInput struct {
	Method  string `query:"method" required:"true" maxLength:"64" pattern:"^[!-~]+$" doc:"The method of the request."`
	Target  string `query:"target" required:"true" maxLength:"8192" pattern:"^[!-~]+$" doc:"The path and query of the request, as a client writes it."`
	Account string `query:"account" maxLength:"64" doc:"The account that calls. Without key: with a key that has all abilities of the plan and no restrictions."`
	Key     string `query:"key" maxLength:"64" doc:"The id of the key that calls."`
	From    string `query:"from" maxLength:"64" doc:"The address of the client, for a key with addresses."`
	Cost    int64  `query:"cost" minimum:"1" maximum:"1000000000000000" default:"1" doc:"The number of elements in the body, for an endpoint whose cost it is."`
}

func (s *server) registerExplain(router huma.API) {
	huma.Register(router, operation(huma.Operation{
		OperationID: "explain", Method: http.MethodGet, Path: "/tollgate/explain", Tags: []string{"usage"},
		Summary: "Explain what the gate would answer to a request",
		Description: "Each step of the gate, the answer, and what is left of each limit. It counts nothing. " +
			"It assumes valid headers and a valid body. Without account and key, the request has no token.",
	}, http.StatusNotFound), answer(s, s.explain))
}

func (s *server) explain(ctx context.Context, with *session, in *explainInput) (api.Explanation, error) {
	question := Question{Method: in.Method, Target: in.Target, Cost: in.Cost}
	if in.From != "" {
		from, err := netip.ParseAddr(in.From)
		if err != nil || from.Zone() != "" {
			return api.Explanation{}, invalidAddress(in.From)
		}
		question.From = from
	}
	id := in.Account
	if id == "" && in.Key != "" {
		var err error
		if id, err = with.book.HolderOfKey(ctx, in.Key); errors.Is(err, store.ErrNotFound) {
			return api.Explanation{}, errUnknownKey
		} else if err != nil {
			return api.Explanation{}, err
		}
	}
	if id != "" {
		a, err := with.book.Get(ctx, id)
		if err != nil {
			return api.Explanation{}, err
		}
		question.Account = &a.Account
		if in.Key != "" {
			key, err := find(a, in.Key)
			if err != nil {
				return api.Explanation{}, err
			}
			question.Key = &key.Key
		}
	}
	return s.backend.Explain(ctx, question)
}
