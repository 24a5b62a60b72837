// Package admin serves the control API: it administers the accounts,
// keys and counts of a gate.
//
// The API is JSON over HTTP and uses nothing of Caddy. Caddy mounts the
// handler twice: on a listener for applications, behind RequireSecret, and
// below its admin endpoint for the command line, which needs no secret.
// Package api has the types, and package client is the client of both.
//
// A change of an account or its keys and its entry in the audit log are one
// step, so the log has each change that was made, and no other; but the entry of
// a reset of counts comes first. The events are made from the log. A request
// that changes nothing adds no entry and no event.
//
// Every refusal has the shape of package apierror. The OpenAPI document is
// at GET /tollgate/openapi.json.
package admin

import (
	"context"
	"crypto/rand"
	"log/slog"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/caddy-tollgate/tollgate/caddymodule/assertion"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/internal/apierror"
	"github.com/caddy-tollgate/tollgate/internal/outage"
	"github.com/caddy-tollgate/tollgate/internal/policy"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
)

// Backend is what the control API administers. Every request asks it
// again, so that a reload takes effect at once. All methods are safe for
// concurrent use.
type Backend interface {
	// Policy returns the configuration in force.
	Policy() *policy.Policy
	// PublicKeys returns the keys that assertions are verified with.
	PublicKeys() assertion.KeySet
	// Book returns what the store keeps, or an error if there is no store
	// now. Every error is answered with 503.
	Book() (*book.Book, error)
	// Now returns the time.
	Now() time.Time
	// Readiness tells whether the gate can take calls. It returns within
	// about a second, also if the store hangs.
	Readiness() api.Readiness
	// Follow makes the events of the entries that are new in the audit log.
	// It returns when they are stored, or after a second. It logs a failure:
	// the gate tries again in the background.
	Follow()
}

// Instance is another text in each process. It tells the gates behind one address
// apart.
var Instance = rand.Text()

// Server answers the control API.
type Server struct {
	Backend Backend
	mux     *http.ServeMux
	router  huma.API
	calls   *outage.Log
}

// Session is what one request uses.
type Session struct {
	Policy *policy.Policy
	Book   *book.Book
	Now    time.Time
	Follow func() // that of the Backend
}

// NewServer returns a server without operations. It logs the cause of a 503 and
// does not send it.
func NewServer(backend Backend, logger *slog.Logger) *Server {
	s := NewPart(backend, logger, "control call failed")
	s.servePlans()
	s.serveAccounts()
	s.serveLimits()
	s.serveKeys()
	s.serveHealth()
	s.serveKeySet()
	Handle(s, api.GetUsage, getUsage)
	return s
}

// NewPart returns a server without the operations of NewServer, for some that have a
// secret of their own. It says message in the log when a request fails.
func NewPart(backend Backend, logger *slog.Logger, message string) *Server {
	s := Unserved(backend, logger, message)
	s.mux = http.NewServeMux()
	s.router = newHuma(s.mux, document(), map[string]*apierror.Error{
		"path.account": api.ErrInvalidAccount, "path.period": api.ErrInvalidPeriod, "body.reason": api.ErrInvalidReason, "query.reason": api.ErrInvalidReason,
	})
	return s
}

// Handler returns the handler of the control API, which serves the paths below
// /tollgate/, once all operations are added. It does not check the secret:
// RequireSecret does.
func (s *Server) Handler() http.Handler {
	serveDocument(s.mux, s.router)
	handler := apierror.Mux(s.mux)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set(api.VersionHeader, api.Version())
		w.Header().Set(api.InstanceHeader, Instance)
		acting, refused := withActor(r)
		if refused != nil {
			Send(w, r, refused)
			return
		}
		handler.ServeHTTP(w, untilDone(acting))
	})
}

// untilDone returns a request whose change does not end with its client: an
// import is applied as a whole. Stores have timeouts of their own.
func untilDone(r *http.Request) *http.Request {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return r
	}
	return r.WithContext(context.WithoutCancel(r.Context()))
}

// Unserved returns a server without operations that says message in the log when a
// request fails.
func Unserved(backend Backend, logger *slog.Logger, message string) *Server {
	return &Server{Backend: backend, calls: outage.New(logger, slog.LevelError, message)}
}

// Open returns what a request uses, or why the store cannot be used.
func (s *Server) Open() (*Session, error) {
	opened, err := s.Backend.Book()
	if err != nil {
		return nil, err
	}
	return &Session{Policy: s.Backend.Policy(), Book: opened, Now: s.Backend.Now(), Follow: s.Backend.Follow}, nil
}

// reply is a response with a body.
type reply[T any] struct{ Body T }

// Handle serves an operation. do returns the body of the answer. Its error is a
// refusal, or one of the store.
func Handle[In, Out any](s *Server, row api.Operation[In, Out], do func(context.Context, *Session, *In) (Out, error)) {
	huma.Register(s.router, operation(row), func(ctx context.Context, in *In) (*reply[Out], error) {
		response := new(reply[Out])
		opened, err := s.Open()
		if err == nil {
			response.Body, err = do(ctx, opened, in)
		}
		if err := s.Refuse(ctx, err); err != nil {
			return nil, err
		}
		return response, nil
	})
}

// Perform is Handle for an operation whose answer has no body.
func Perform[In any](s *Server, row api.Operation[In, api.None], do func(context.Context, *Session, *In) error) {
	huma.Register(s.router, operation(row), func(ctx context.Context, in *In) (*struct{}, error) {
		opened, err := s.Open()
		if err == nil {
			err = do(ctx, opened, in)
		}
		return nil, s.Refuse(ctx, err)
	})
}

// IsSlow tells whether a page of a list has taken so long that it ends early.
func (s *Server) IsSlow(since time.Time) bool {
	return s.Backend.Now().Sub(since) > 150*time.Millisecond
}

// Cut returns the rows of a page from a list of one more than its limit, and
// the position of the last one if there is a next page.
func Cut[T any](list []T, limit int, position func(T) string) (page []T, next *string) {
	if len(list) <= limit {
		return list, nil
	}
	return list[:limit], new(position(list[limit-1]))
}
