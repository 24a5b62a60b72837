package caddymodule

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"go.uber.org/zap"

	"github.com/caddy-tollgate/tollgate/caddymodule/assertion"
	"github.com/caddy-tollgate/tollgate/internal/admin"
	"github.com/caddy-tollgate/tollgate/internal/block"
	"github.com/caddy-tollgate/tollgate/internal/feature"
	"github.com/caddy-tollgate/tollgate/internal/feature/check"
	"github.com/caddy-tollgate/tollgate/internal/feature/declare"
	"github.com/caddy-tollgate/tollgate/internal/feature/event"
	"github.com/caddy-tollgate/tollgate/internal/feature/feed"
	"github.com/caddy-tollgate/tollgate/internal/gate"
	"github.com/caddy-tollgate/tollgate/internal/gate/header"
	"github.com/caddy-tollgate/tollgate/internal/login"
	"github.com/caddy-tollgate/tollgate/internal/metrics"
	"github.com/caddy-tollgate/tollgate/internal/policy"
	"github.com/caddy-tollgate/tollgate/internal/pool"
	"github.com/caddy-tollgate/tollgate/internal/site"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
)

func init() {
	caddy.RegisterModule((*App)(nil))
	httpcaddyfile.RegisterGlobalOption("tollgate", parseApp)
	site.SetOtherHosts()
}

// App configures API keys, plans, quotas, rate limits and usage metering in
// front of any HTTP API. The handlers tollgate and tollgate_control and the admin
// endpoint use it.
type App struct {
	// StoreRaw is where accounts, keys and counts are kept. Required. The
	// store "badger" is a directory of this machine. The store "redis" is a
	// server for several gates; it is a package of its own in the build.
	StoreRaw json.RawMessage `json:"store,omitempty" caddy:"namespace=tollgate.stores inline_key=module"`

	// Secret opens the control API. The key that signs Tollgate-Assertion is
	// derived from it. Required, at least 32 characters; use 32 random bytes.
	// Placeholders such as {env.TOLLGATE_SECRET} and
	// {file./run/secrets/tollgate} are resolved when the configuration is
	// loaded.
	Secret string `json:"secret,omitempty"`

	// OldSecret also opens the control API, and the key set has its key, so
	// that programs with the old secret work until they have the new one.
	// Default: none.
	OldSecret string `json:"old_secret,omitempty"`

	// IntrospectionSecret opens token introspection (RFC 7662) at POST
	// /tollgate/introspect of the control listener, and nothing else. At
	// least 32 characters, and another secret than the others. Placeholders
	// are resolved as in Secret. Default: none, there is no introspection.
	IntrospectionSecret string `json:"introspection_secret,omitempty"`

	// TakeSecret opens POST /tollgate/take and /tollgate/calls/{call}/settle of
	// the control listener, which count calls that do not pass through the gate,
	// and nothing else. At least 32 characters, and another secret than the
	// others. Placeholders are resolved as in Secret. Default: none, programs
	// cannot take calls.
	TakeSecret string `json:"take_secret,omitempty"`

	// Webhook posts events to an HTTP server. Default: none.
	Webhook *event.Webhook `json:"webhook,omitempty"`

	// Feed posts what accounts call to a system that bills it. Default: none.
	Feed *feed.Feed `json:"feed,omitempty"`

	// Site is the address of the web pages, as in a Caddyfile, for links that open
	// them for an account. Of several addresses, links lead to the first. Default:
	// {env.TOLLGATE_ADDRESS}, or http://localhost:8080 without it. If the default
	// is invalid or has a wildcard, the gate makes no links.
	Site string `json:"site,omitempty"`

	policy.Config

	// Accounts lists accounts with their keys. Each load makes them so in the
	// store. Default: none.
	Accounts []declare.Account `json:"accounts,omitempty"`

	policy *policy.Policy
	declared
	opener pool.Opener
	keys   []*assertion.Key // of Secret, then of OldSecret
	signer *assertion.Signer
	site   *url.URL
	gate   *gate.Gate
	// control serves the control listener and the admin endpoint.
	control http.Handler
	notices *event.Notices
	log     *zap.Logger

	starts []func() error // see AtStart

	store atomic.Pointer[pool.Store]
	book  atomic.Pointer[book.Book] // that of the store, with the names of this configuration
	began time.Time                 // when it was provisioned
	// stopped is when the app began to stop; nil before that.
	stopped atomic.Pointer[time.Time]
	ended   atomic.Bool // true after Cleanup
}

// CaddyModule returns the Caddy module information.
func (*App) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "tollgate", New: func() caddy.Module { return new(App) }}
}

// Provision compiles the configuration. It opens no store, so that caddy
// validate works while another process uses the store. If the store is open
// already, the app uses it from here on, so that a reload refuses no request
// that arrives before Start.
func (a *App) Provision(ctx caddy.Context) error {
	a.log = ctx.Logger()
	if err := a.resolveSecrets(); err != nil {
		return err
	}
	var err error
	if a.policy, err = a.check(false); err != nil {
		return err
	}
	if a.opener, err = a.loadStore(ctx); err != nil {
		return err
	}
	a.warnOfWeakSecrets()
	for _, finding := range check.Doubts(a.policy) {
		a.log.Warn("the configuration probably has a mistake", zap.String("finding", finding))
	}
	if a.signer, err = a.newSigner(); err != nil {
		return err
	}
	m, err := metrics.New(ctx.GetMetricsRegistry(), a.policy, pool.Gauges{InForce: storeInForce})
	if err != nil {
		return err
	}
	if err := a.provisionEvents(ctx); err != nil {
		return err
	}
	a.control = feature.Handler(controlBackend{a}, ctx.Slogger())
	a.gate = gate.New(gate.Options{
		Policy: a.policy, Store: func() (gate.Store, error) { return a.Book() }, Limiter: a.limiter, Guesses: guesses(), Reservations: reservations,
		Enrol: a.enrol, Assertions: a.signer,
		Server: server{m}, Reporter: reporter{a}, Now: a.now, Since: a.since, Logger: a.log,
	})
	a.began = time.Now()
	enlist(a)
	open, err := pool.JoinOpen(a.opener)
	a.use(open)
	return err
}

// resolveSite replaces the placeholders of the site, and applies its default.
// The default is an address of Caddy's sites, which can be no address of links.
// Then there is no site.
func (a *App) resolveSite() error {
	address, err := block.Resolve(cmp.Or(a.Site, os.Getenv("TOLLGATE_ADDRESS"), "http://localhost:8080"), "", nil)
	if err != nil && a.Site != "" {
		return mistake("site", "%w", err)
	}
	if site, err := assertion.PublicURL(address); err == nil && !strings.Contains(site.Host, "*") {
		a.site = site
	} else if a.Site != "" {
		return mistake("site", "invalid address %q: use http://host or https://host", address)
	}
	return nil
}

// guesses limits the unknown tokens of clients. It outlives configurations,
// so that a reload gives no client new guesses. So do reservations, for the
// calls in progress.
var (
	guesses      = sync.OnceValue(login.NewGuesses)
	reservations = gate.NewReservations()
)

// enrol implements gate.Options.Enrol.
func (a *App) enrol(ctx context.Context, account, user, plan string) error {
	return admin.Enrol(ctx, controlBackend{a}, account, user, plan)
}

// check validates the configuration and compiles it. It returns all mistakes
// joined. written says that placeholders have no values yet: secrets and a site
// with one are not validated.
func (a *App) check(written bool) (*policy.Policy, error) {
	p, err := policy.New(a.Config)
	errs := []error{a.checkSecrets(written), a.Webhook.Check(written), a.Feed.Check(written), err}
	accounts := a.Accounts
	switch is := func(d declare.Account) bool { return d.ID == policy.AnonymousAccount }; {
	case p.Anonymous == nil || p.Anonymous.Plan == nil:
	case slices.ContainsFunc(accounts, is):
		errs = append(errs, mistake("account "+policy.AnonymousAccount, "duplicate account: the option anonymous declares it already"))
	default:
		accounts = append(slices.Clip(accounts), declare.Account{ID: policy.AnonymousAccount, Plan: p.Anonymous.Plan.Name})
	}
	a.declaration, err = declare.New(accounts, p)
	errs = append(errs, err)
	if !written || !strings.Contains(a.Site, "{") {
		errs = append(errs, a.resolveSite())
	}
	if a.StoreRaw == nil {
		errs = append(errs, mistake("store", "required: write store badger <directory>"))
	}
	if name := http.CanonicalHeaderKey(a.TokenHeader); header.IsForbidden(name) {
		errs = append(errs, mistake("token_header", "the gate removes the header %s from requests: use another one, such as X-Api-Key", name))
	}
	return p, errors.Join(errs...)
}

// mistake returns an error of an option.
func mistake(subject, format string, args ...any) error {
	return &policy.Error{Subject: subject, Err: fmt.Errorf(format, args...)}
}

// newSigner derives the keys of the secrets, and returns a signer with the
// first one.
func (a *App) newSigner() (*assertion.Signer, error) {
	for _, secret := range []string{a.Secret, a.OldSecret} {
		if secret == "" {
			continue
		}
		key, err := assertion.NewKey(secret)
		if err != nil {
			return nil, err
		}
		a.keys = append(a.keys, key)
	}
	return assertion.NewSigner(a.keys[0])
}

// Start opens the store, makes or checks what the configuration declares, and then
// does all that AtStart added. If that fails, Caddy keeps the running configuration. Requests do
// not wait for it, because it can take long: without a store they are refused.
func (a *App) Start() error {
	reload := a.store.Load() != nil // the configuration in force has the store open
	open, err := a.openStore()
	if err != nil {
		return err
	}
	err = a.declare(open, reload)
	a.use(open) // also after an error: Cleanup leaves it
	if err != nil {
		return err
	}
	for _, start := range a.starts {
		if err := start(); err != nil {
			return err
		}
	}
	a.logSummary()
	return nil
}

// logSummary tells the operator what is in force.
func (a *App) logSummary() {
	plans := make([]string, len(a.policy.Plans))
	for i, plan := range a.policy.Plans {
		plans[i] = plan.Name
	}
	open := "no path"
	if guard := a.policy.Guard.String(); guard != "/" {
		open = "all paths that do not begin with " + guard
	}
	if public := a.policy.Anonymous; public != nil {
		open += "; without a key: the endpoints of plan " + public.Plan.Name
	}
	a.log.Info("gate started", zap.String("store", caddy.GetModuleName(a.opener)), zap.Int("endpoints", len(a.policy.Endpoints)), zap.String("open", open),
		zap.Strings("plans", plans), zap.String("timezone", a.policy.Calendar.Zone()), zap.String("mode", string(a.policy.Mode)))
}

// Stop keeps the store open for requests in flight. Cleanup releases it.
func (a *App) Stop() error {
	a.stopping()
	a.notices.Stop()
	return nil
}

// Cleanup releases the store. It is closed when no configuration uses it.
func (a *App) Cleanup() error {
	defer a.Webhook.Close()
	defer a.Feed.Close()
	defer delist(a) // the last events of the store use this configuration
	open := a.store.Load()
	if a.ended.Swap(true) || open == nil {
		return nil
	}
	a.gate.Wait() // for settlements, before the store is closed
	return open.Leave()
}

// opened returns the open store, or why there is none. A request that
// outlives the app still uses its store, which may be closed.
func (a *App) opened() (*pool.Store, error) {
	s := a.store.Load()
	switch {
	case s != nil:
		return s, nil
	case a.ended.Load():
		return nil, store.ErrClosed
	}
	return nil, store.ErrOpening
}

// clock is the clock of the store: several gates share one.
func (a *App) clock() store.Clock {
	if s := a.store.Load(); s != nil {
		return s.Clock
	}
	return pool.LocalClock{}
}

func (a *App) now() time.Time                  { return a.clock().Now() }
func (a *App) since(t time.Time) time.Duration { return a.clock().Since(t) }

// Book returns what the open store keeps, or why there is none.
func (a *App) Book() (*book.Book, error) {
	if _, err := a.opened(); err != nil {
		return nil, err
	}
	return a.book.Load(), nil
}

// limiter returns the login limiter, or why there is none.
func (a *App) limiter() (*login.Limiter, error) {
	s, err := a.opened()
	if err != nil {
		return nil, err
	}
	return s.Limiter, nil
}

// Interface guards.
var (
	_ caddy.App          = (*App)(nil)
	_ caddy.Provisioner  = (*App)(nil)
	_ caddy.CleanerUpper = (*App)(nil)
)
