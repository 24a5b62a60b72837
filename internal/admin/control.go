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
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"

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
	// Portal makes a link that opens the web pages of an account: see
	// PortalLink.
	Portal(account string, now time.Time) (api.Portal, error)
	// Watched tells whether the configuration has a webhook, and whether this
	// machine has the package's unit for backups.
	Watched() (webhook, backup bool)
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
	// FlushReports stores the refused calls that are counted in memory.
	FlushReports(ctx context.Context) error
	// Explain tells what the gate would answer to a request. It counts nothing.
	Explain(ctx context.Context, question Question) (api.Explanation, error)
}

// Instance is another text in each process. It tells the gates behind one address
// apart.
var Instance = rand.Text()

// server answers the control API.
type server struct {
	backend Backend
	calls   *outage.Log
	summary atomic.Pointer[api.Summary] // the last one
	summing singleflight.Group
}

// session is what one request uses.
type session struct {
	policy *policy.Policy
	book   *book.Book
	now    time.Time
	follow func() // that of the Backend
}

// New returns the handler of the control API, which serves the paths below
// /tollgate/. It does not check the secret: RequireSecret does. It logs the
// cause of a 503 and does not send it.
func New(backend Backend, logger *slog.Logger) http.Handler {
	s := &server{backend: backend, calls: outage.New(logger, slog.LevelError, "control call failed")}
	s.summary.Store(new(api.Summary))
	mux := http.NewServeMux()
	router := newHuma(mux, document(), map[string]*apierror.Error{
		"path.account": api.ErrInvalidAccount, "path.period": api.ErrInvalidPeriod, "body.reason": api.ErrInvalidReason, "query.reason": api.ErrInvalidReason,
	})
	s.registerPlans(router)
	s.registerAccounts(router)
	s.registerPortal(router)
	s.registerLimits(router)
	s.registerKeys(router)
	s.registerFind(router)
	s.registerUsage(router)
	s.registerOverview(router)
	s.registerAudit(router)
	s.registerRefused(router)
	s.registerHealth(router)
	s.registerExplain(router)
	serveImport(s, mux, router, accountImport)
	serveImport(s, mux, router, keyImport)
	describeIntrospection(router)
	s.serveKeySet(mux, router)
	serveDocument(mux, router)
	handler := apierror.Mux(mux)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set(api.VersionHeader, api.Version())
		w.Header().Set(api.InstanceHeader, Instance)
		acting, refused := withActor(r)
		if refused != nil {
			send(w, r, refused)
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

func (s *server) open() (*session, error) {
	opened, err := s.backend.Book()
	if err != nil {
		return nil, err
	}
	return &session{policy: s.backend.Policy(), book: opened, now: s.backend.Now(), follow: s.backend.Follow}, nil
}

// reply is a response with a body.
type reply[T any] struct{ Body T }

// answer makes a huma handler of a function with a result.
func answer[I, T any](s *server, do func(context.Context, *session, *I) (T, error)) func(context.Context, *I) (*reply[T], error) {
	return func(ctx context.Context, in *I) (*reply[T], error) {
		response := new(reply[T])
		opened, err := s.open()
		if err == nil {
			response.Body, err = do(ctx, opened, in)
		}
		if err := s.refuse(ctx, err); err != nil {
			return nil, err
		}
		return response, nil
	}
}

// perform makes a huma handler of a function without a result.
func perform[I any](s *server, do func(context.Context, *session, *I) error) func(context.Context, *I) (*struct{}, error) {
	return func(ctx context.Context, in *I) (*struct{}, error) {
		opened, err := s.open()
		if err == nil {
			err = do(ctx, opened, in)
		}
		return nil, s.refuse(ctx, err)
	}
}

// isSlow tells whether a page of a list has taken so long that it ends early.
func (s *server) isSlow(since time.Time) bool {
	return s.backend.Now().Sub(since) > 150*time.Millisecond
}

// cut returns the rows of a page from a list of one more than its limit, and
// the position of the last one if there is a next page.
func cut[T any](list []T, limit int, position func(T) string) (page []T, next *string) {
	if len(list) <= limit {
		return list, nil
	}
	return list[:limit], new(position(list[limit-1]))
}
