// Package portal is the people's side of the upstream: their accounts and
// sessions, the web pages, the pages of operators, and the login of the API.
// It works for any API behind the gate.
//
// A Portal has its parts over one database. Package command has the commands.
package portal

import (
	"context"
	"errors"
	"fmt"
	"html/template"
	"log/slog"
	"net/http"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/upstream/option"
	"github.com/caddy-tollgate/tollgate/upstream/portal/account"
	"github.com/caddy-tollgate/tollgate/upstream/portal/account/database"
	"github.com/caddy-tollgate/tollgate/upstream/portal/web"
)

// DefaultAddress is the address of a site by default, and WantAddress says what
// it can be.
const (
	DefaultAddress = "http://localhost:8080"
	WantAddress    = "http://host or https://host"
)

// Place is where the accounts are.
type Place struct {
	// Directory holds the accounts unless there is a Database. It is created
	// when it is missing.
	Directory string
	// Database is the URL of a PostgreSQL database for the accounts. Empty
	// for a SQLite file in Directory.
	Database string
}

// Check refuses another URL than one of PostgreSQL.
func (p Place) Check() error {
	if p.Database != "" && !database.IsURL(p.Database) {
		return &option.Error{Option: "database", Want: "a URL that begins with postgres://"}
	}
	return nil
}

// OpenDatabase opens the account database. The caller closes it.
func (p Place) OpenDatabase(ctx context.Context) (*database.Store, error) {
	if p.Database != "" {
		return database.OpenURL(ctx, p.Database)
	}
	return database.OpenFile(ctx, p.Directory)
}

// Accounts returns the accounts in an open database.
func Accounts(store *database.Store, gate *client.Client, logger *slog.Logger) *account.Service {
	hasher := account.NewHasher(account.DefaultCost(), runtime.GOMAXPROCS(0))
	return account.NewService(store, gate, hasher, time.Now, logger)
}

// endLoginsEvery is how often a Portal looks for login tokens that the gate
// did not end when a password was changed. Usually the query finds no row.
const endLoginsEvery = 2 * time.Second

// pruneEvery is how often a Portal deletes reset links and sessions that ended.
const pruneEvery = 10 * time.Minute

// Portal is an open account database with what serves it.
type Portal struct {
	place    Place
	client   *client.Client
	logger   *slog.Logger
	accounts *account.Service
	gate     *gateCheck
	store    *database.Store
}

// Open opens the database. ctx bounds the start only. The Portal calls the gate
// by the client, whose connections it does not close. Keep runs work in the
// background until the Portal is closed: it checks the gate, ends old login
// tokens, and deletes reset links and sessions that have ended.
func Open(ctx context.Context, place Place, gate *client.Client, keep func(name string, work func(context.Context)), logger *slog.Logger) (*Portal, error) {
	store, err := place.OpenDatabase(ctx)
	if err != nil {
		return nil, err
	}
	p := &Portal{place, gate, logger, Accounts(store, gate, logger), newGateCheck(gate, logger), store}
	keep("checking the gate", p.gate.run)
	keep("ending logins", func(ctx context.Context) { p.accounts.Run(ctx, endLoginsEvery) })
	keep("pruning", func(ctx context.Context) { p.accounts.Prune(ctx, pruneEvery) })
	return p, nil
}

// Close closes the database after all running statements.
func (p *Portal) Close() error { return p.store.Close() }

// Ping returns an error if the database does not answer.
func (p *Portal) Ping(ctx context.Context) error { return p.store.Ping(ctx) }

// GateState returns the state of the gate, for the health check.
func (p *Portal) GateState() string { return p.gate.State() }

// Metrics has the time of the last copy of the accounts, unless another
// program copies them.
func (p *Portal) Metrics() []prometheus.Collector {
	if p.place.Database != "" {
		return nil
	}
	return []prometheus.Collector{prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "tollgate_accounts_backup_last_success_timestamp_seconds", Help: "When a copy of the accounts last succeeded, 0 if none did.",
	}, func() float64 { return float64(max(0, database.CopiedAt(p.place.Directory).Unix())) })} // a zero time is before 1970
}

// Login answers POST /api/login.
func (p *Portal) Login() http.Handler { return NewLogin(p.accounts, p.logger) }

// Pages returns the web pages of a site. Docs are the pages of the reference of
// the API. Rates tells how many publications the rates lack, nil without them.
func (p *Portal) Pages(s web.Site, docs map[string]template.HTML, rates func() int) (http.Handler, error) {
	pages, err := web.New(web.Config{
		Accounts: p.accounts, Sessions: p.store, Gate: p.client, Site: s, Docs: docs, Rates: rates, Now: time.Now, Logger: p.logger,
	})
	if err != nil {
		return nil, fmt.Errorf("preparing pages: %w", err)
	}
	return pages, nil
}

// What the health check says of the gate.
const (
	gateUnchecked     = "unchecked"
	gateOK            = "ok"
	gateUnreachable   = "unreachable"
	gateSecretRefused = "secret_refused"
	gateNotControl    = "not_the_control_api"
	gateUnavailable   = "unavailable"
)

var (
	errSecretRefused = errors.New("the gate refuses the secret: give the gate and upstream the same secret")
	errNotControl    = errors.New("another server answers: give upstream the address of the gate's control listener")
)

// checkTimeout is how long a check may take. Usually it takes a millisecond.
const checkTimeout = 10 * time.Second
