package api

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/caddy-tollgate/tollgate/caddymodule/apierror"
)

// service is what the handlers share.
type service struct {
	source  Source
	now     func() time.Time
	answers answers
}

// reply is what huma wants a handler to return.
type reply[O any] struct{ Body *O }

// handler is an endpoint's own work. The context is left out: everything
// is in memory, and there is nothing to wait for.
type handler[I, O any] func(*service, *I) (*O, *apierror.Error)

// registration adds an endpoint to an API.
type registration func(*service, huma.API, huma.Operation)

// register makes an endpoint of a handler: huma fills its input from the
// request and documents both types, and the manners that all endpoints
// have in common go around it.
func register[I, O any](handle handler[I, O]) registration {
	return func(s *service, api huma.API, operation huma.Operation) {
		var known query
		operation.Middlewares = huma.Middlewares{func(ctx huma.Context, next func(huma.Context)) {
			s.serve(known, ctx, next)
		}}
		// The text is judged by the handler, in this API's own words.
		operation.SkipValidateParams, operation.SkipValidateBody = true, true
		operation.MaxBodyBytes = largestBody + 1
		huma.Register(api, operation, func(_ context.Context, in *I) (*reply[O], error) {
			out, refusal := handle(s, in)
			if refusal != nil {
				return nil, refusal
			}
			return &reply[O]{out}, nil
		})
		known = newQuery(documented(api.OpenAPI(), operation).Parameters)
	}
}

// documented returns the operation as the document has it, with all that
// huma found out about its types.
func documented(document *huma.OpenAPI, operation huma.Operation) *huma.Operation {
	item := document.Paths[operation.Path]
	if operation.Method == http.MethodPost {
		return item.Post
	}
	return item.Get
}

// checkedHeader replaces the header of a request that serve let pass. huma
// reads both fields again and by other rules: it panics on "Accept:
// a;b,c", and "Content-Type: Application/JSON" is unknown to it.
var checkedHeader = http.Header{"Content-Type": {"application/json"}}

// serve goes around every endpoint: what all of them refuse, then the
// handler, then what all of their answers carry.
func (s *service) serve(known query, ctx huma.Context, next func(huma.Context)) {
	r, w := humago.Unwrap(ctx)
	w.Header().Add("Vary", "Accept")
	if refusal := apierror.Negotiate(r.Header); refusal != nil {
		write(w, refusal)
		return
	}
	if refusal := known.check(r.URL.RawQuery); refusal != nil {
		write(w, refusal)
		return
	}
	if r.Method == http.MethodPost {
		held, refusal := readBody(w, r)
		if refusal != nil {
			write(w, refusal)
			return
		}
		r = held
	}
	held := s.answers.take(w)
	checked := *r
	checked.Header = checkedHeader
	next(humago.NewContext(ctx.Operation(), &checked, held))
	now := s.now()
	held.send(r, s.source.NextExpected(now).Sub(now))
	s.answers.giveBack(held)
}

// write sends a refusal. That the client has gone away meanwhile is no
// error of ours, and there is nobody left to tell.
func write(w http.ResponseWriter, refusal *apierror.Error) {
	_ = refusal.Write(w)
}
