package api

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/caddy-tollgate/tollgate/caddymodule/apierror"
)

// service has the state that all handlers share.
type service struct {
	source  Source
	now     func() time.Time
	answers answers
}

// reply is the return type that huma requires.
type reply[O any] struct{ Body *O }

// handler is the work of an endpoint. It has no context: all data is in
// memory.
type handler[I, O any] func(*service, *I) (*O, *apierror.Error)

// registration adds an endpoint to an API.
type registration func(*service, huma.API, huma.Operation)

// register returns the registration of a handler. huma fills the input from
// the request and documents both types. serve wraps the handler.
func register[I, O any](handle handler[I, O]) registration {
	return func(s *service, api huma.API, operation huma.Operation) {
		var known query
		operation.Middlewares = huma.Middlewares{func(ctx huma.Context, next func(huma.Context)) {
			s.serve(known, ctx, next)
		}}
		// The handler validates the input, with the refusals of this API.
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

// documented returns the operation from the document, with the schemas that
// huma added.
func documented(document *huma.OpenAPI, operation huma.Operation) *huma.Operation {
	item := document.Paths[operation.Path]
	if operation.Method == http.MethodPost {
		return item.Post
	}
	return item.Get
}

// checkedHeader replaces the header of a request that serve admits. huma reads
// both fields again with other rules: it panics on "Accept: a;b,c", and refuses
// "Content-Type: Application/JSON".
var checkedHeader = http.Header{"Content-Type": {"application/json"}}

// serve wraps every endpoint: first the common refusals, then the handler,
// then the common headers.
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

// write sends a refusal. If that fails, the client is gone; ignore the error.
func write(w http.ResponseWriter, refusal *apierror.Error) {
	_ = refusal.Write(w)
}
