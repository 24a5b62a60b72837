package api

import (
	"net/http"
	"reflect"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/caddy-tollgate/tollgate/internal/apierror"
)

// service has the state that all handlers share.
type service struct {
	source Source
	now    func() time.Time
	// answers has values of kept: growing a new buffer for each call would cost
	// more than the numbers in it.
	answers sync.Pool
}

// handler is the work of an endpoint. It has no context: all data is in
// memory.
type handler[I, O any] func(*service, *I) (*O, *apierror.Error)

// registration is the work of an operation for the document and the server.
type registration struct {
	// rows is true if the answer is tabular.
	rows bool
	// responses documents the answers, with an operation's own refusals.
	responses func(get bool, own problemCodes) map[string]*huma.Response
	// serve documents the operation and returns what serves it.
	serve func(*service, huma.API, huma.Operation) http.Handler
}

// reply is the return type that huma requires.
type reply[O any] struct{ Body *O }

// register returns the registration of a handler. huma documents both types;
// it does not serve them, because its request handling takes longer than a
// conversion.
func register[I, O any](handle handler[I, O]) registration {
	var others []string
	_, rows := any((*O)(nil)).(tabular)
	if rows {
		others = rowTypes[:]
	}
	return registration{rows, countedResponses, func(s *service, documentation huma.API, operation huma.Operation) http.Handler {
		fields := inputOf(reflect.TypeFor[I]())
		huma.Register[I, reply[O]](documentation, operation, nil)
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Add("Vary", "Accept")
			in := new(I)
			accepted, refusal := apierror.Negotiate(r.Header, others...)
			if refusal == nil {
				refusal = fields.read(w, r, reflect.ValueOf(in).Elem())
			}
			if refusal != nil {
				// If this fails, the client is gone; ignore the error.
				_ = refusal.Write(w)
				return
			}
			var answer any
			if answer, refusal = handle(s, in); refusal == nil && accepted != mediaType {
				rows := answer.(tabular).table()
				if answer = rows; rows == nil {
					refusal = invalidRequest("CSV and NDJSON have only rows. Omit summary, or send Accept: application/json.")
				}
			}
			if refusal != nil {
				s.send(w, r, refusal.Status, refusalFormat, refusal)
				return
			}
			s.send(w, r, http.StatusOK, formats[accepted], answer)
		})
	}}
}

// external returns the registration of an operation that the login or the gate
// answers: the document describes the whole API that clients see.
func external[I, O any](responses func(get bool, own problemCodes) map[string]*huma.Response) registration {
	return registration{false, responses, func(_ *service, documentation huma.API, operation huma.Operation) http.Handler {
		huma.Register[I, reply[O]](documentation, operation, nil)
		return nil
	}}
}

// unserved is the adapter of a huma API that only documents.
type unserved struct{}

// Handle drops the handler of huma.
func (unserved) Handle(*huma.Operation, func(huma.Context)) {}

// ServeHTTP is never called.
func (unserved) ServeHTTP(http.ResponseWriter, *http.Request) {}
