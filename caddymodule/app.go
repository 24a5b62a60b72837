package caddymodule

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/caddy-tollgate/tollgate/caddymodule/assertion"
	"github.com/caddy-tollgate/tollgate/caddymodule/control"
	"github.com/caddy-tollgate/tollgate/caddymodule/gate"
	"github.com/caddy-tollgate/tollgate/caddymodule/login"
	"github.com/caddy-tollgate/tollgate/caddymodule/policy"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
)

// minSecret is the length of the shortest secret, in characters: with
// hexadecimal ones that is 128 bits, which nobody guesses.
const minSecret = 32

// App holds everything that the gate knows: endpoints, plans, the store,
// the secret. The handler tollgate, the handler tollgate_control and the
// admin endpoint all ask this one app.
//
// Counts, tokens and the login throttle's memory outlive it: they are
// opened once per store and kept across reloads of the configuration.
type App struct {
	// StoreRaw chooses where accounts, keys and counts are kept, and how.
	// Required. The store "badger" is a directory of this machine.
	StoreRaw json.RawMessage `json:"store,omitempty" caddy:"namespace=tollgate.stores inline_key=module"`

	// Secret opens the control API. The key that signs Tollgate-Assertion
	// is derived from it. Required, at least 32 characters. The public key
	// lets anyone test guesses of a weak secret: use 32 random bytes.
	// Placeholders such as {env.TOLLGATE_SECRET} and
	// {file./run/secrets/tollgate} are resolved when the configuration is
	// loaded.
	Secret string `json:"secret,omitempty"`

	// Proof "static" sends the header Tollgate-Proof as well, for services
	// that do not verify Tollgate-Assertion yet: an HMAC under the secret,
	// always the same for all services. It can appear in logs, and lets
	// anyone who knows it call every service that accepts it. Default: none.
	Proof string `json:"proof,omitempty"`

	policy.Config

	// Errors decides who writes the gate's refusals: with "json" (the
	// default) the gate does, as JSON, as a page for browsers and with a
	// status for gRPC clients, and it also answers for handlers behind it
	// that fail with 502, 503 or 504. "pass" hands all of these to
	// handle_errors. Headers such as Retry-After are set either way.
	Errors string `json:"errors,omitempty"`

	policy *policy.Policy
	opener StoreOpener
	key    *assertion.Key
	gate   *gate.Gate
	// control is one handler for both of its mounts: it keeps changes to
	// an account apart from each other.
	control http.Handler
	log     *zap.Logger

	state  atomic.Pointer[state]
	pooled string    // key of the pooled state that this app holds; "" none
	began  time.Time // when it was provisioned
	// stopped is when the app was seen to stop, and ended is after
	// Cleanup.
	stopped atomic.Pointer[time.Time]
	ended   atomic.Bool
}

// CaddyModule returns the Caddy module information.
func (*App) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "tollgate", New: func() caddy.Module { return new(App) }}
}

// Provision compiles the configuration. It opens nothing: a
// configuration can be validated while another process uses its store. A
// store that is open already is joined here, so that a reload refuses no
// request that arrives before Start.
func (a *App) Provision(ctx caddy.Context) error {
	a.log = ctx.Logger()
	secret, err := caddy.NewReplacer().ReplaceOrErr(a.Secret, true, true)
	if err != nil {
		return &policy.Error{Subject: "secret", Err: errors.New("a placeholder in it is empty or unknown")}
	}
	errs := []error{checkSecret(secret), checkErrors(a.Errors), checkProof(a.Proof)}
	a.policy, err = policy.New(a.Config)
	errs = append(errs, err)
	if a.StoreRaw == nil {
		errs = append(errs, errNoStore)
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	module, err := ctx.LoadModule(a, "StoreRaw")
	if err != nil {
		return fmt.Errorf("loading the store: %w", err)
	}
	a.opener = module.(StoreOpener)
	a.Secret = secret
	signer, err := a.newSigner()
	if err != nil {
		return err
	}
	m, err := newMeter(ctx, a.policy)
	if err != nil {
		return err
	}
	a.control = control.New(backend{a}, ctx.Slogger())
	a.gate = gate.New(gate.Options{
		Policy: a.policy, Store: func() (gate.Store, error) { return a.Store() }, Throttle: a.Throttle, Assertions: signer, Proof: a.staticProof(),
		PassErrors: a.Errors == errorsPass, Server: server{m}, Now: time.Now, Since: time.Since, Logger: a.log,
	})
	a.began = time.Now()
	enlist(a)
	if err := a.join(func() (caddy.Destructor, error) { return nil, errNotOpen }); !errors.Is(err, errNotOpen) {
		return err
	}
	return nil
}

// errorsPass is the value of App.Errors that leaves refusals to Caddy.
const errorsPass = "pass"

var errNoStore = &policy.Error{Subject: "store", Err: errors.New("no store is configured")}

func checkErrors(mode string) error {
	switch mode {
	case "", "json", errorsPass:
		return nil
	}
	return &policy.Error{Subject: "errors", Err: fmt.Errorf("%q is neither json nor pass", mode)}
}

// proofStatic is the value of App.Proof that sends a static proof.
const proofStatic = "static"

func checkProof(proof string) error {
	if proof != "" && proof != proofStatic {
		return &policy.Error{Subject: "proof", Err: fmt.Errorf("%q is not static", proof)}
	}
	return nil
}

// staticProof is "" unless it is configured.
func (a *App) staticProof() string {
	if a.Proof != proofStatic {
		return ""
	}
	return assertion.Proof(a.Secret)
}

// newSigner derives the app's key and returns what signs with it.
func (a *App) newSigner() (signer *assertion.Signer, err error) {
	if a.key, err = assertion.NewKey(a.Secret); err != nil {
		return nil, err
	}
	return assertion.NewSigner(a.key)
}

// checkSecret never shows the secret. One with a character that cannot be
// sent in a header would open nothing.
func checkSecret(secret string) error {
	var err error
	unsendable := func(r rune) bool { return r < ' ' || r > '~' }
	switch n := utf8.RuneCountInString(secret); {
	case secret == "":
		err = errors.New("no secret is configured")
	case n < minSecret:
		err = fmt.Errorf("it has %d characters, at least %d are needed", n, minSecret)
	case strings.ContainsFunc(secret, unsendable) || strings.TrimSpace(secret) != secret:
		err = errors.New("it has a character outside of ASCII, a control character or a space at an end")
	default:
		return nil
	}
	return &policy.Error{Subject: "secret", Err: err}
}

// Start opens the store, so that a configuration whose store cannot be
// opened is refused as a whole and the running one goes on. Requests do
// not wait for that: there is no telling how long it takes.
func (a *App) Start() error {
	if a.state.Load() == nil {
		return a.join(func() (caddy.Destructor, error) { return openState(a.opener) })
	}
	if a.state.Load().settings != a.opener.Settings() {
		a.log.Warn("changed settings of the store take effect after a restart", zap.String("store", a.pooled))
	}
	return nil
}

// Stop keeps the store open: requests are still under way, and Cleanup
// lets the store go.
func (a *App) Stop() error {
	a.stopping()
	return nil
}

// Cleanup lets the store go. It is closed when no configuration uses it.
func (a *App) Cleanup() error {
	delist(a)
	a.ended.Store(true)
	if a.pooled == "" {
		return nil
	}
	_, err := states.Delete(a.pooled)
	a.pooled = ""
	return err
}

// join makes this app a user of the pooled state, which open makes if
// there is none. Caddy loads one configuration at a time.
func (a *App) join(open caddy.Constructor) error {
	key := a.opener.Key()
	value, _, err := states.LoadOrNew(key, open)
	if err != nil {
		return err
	}
	a.pooled = key
	a.state.Store(value.(*state))
	return nil
}

// opened returns the pooled state. A request that outlives the app finds
// the state that it used, or a closed store.
func (a *App) opened() (*state, error) {
	s := a.state.Load()
	switch {
	case s != nil:
		return s, nil
	case a.ended.Load():
		return nil, store.ErrClosed
	}
	return nil, store.ErrOpening
}

// Policy returns the compiled configuration.
func (a *App) Policy() *policy.Policy { return a.policy }

// PublicKeys returns the keys that services verify assertions with.
func (a *App) PublicKeys() assertion.KeySet { return assertion.NewKeySet(a.key) }

// Store returns the store, or why there is none.
func (a *App) Store() (store.Store, error) {
	s, err := a.opened()
	if err != nil {
		return nil, err
	}
	return s.store, nil
}

// Throttle returns the login throttle's state, or why there is none.
func (a *App) Throttle() (*login.Throttle, error) {
	s, err := a.opened()
	if err != nil {
		return nil, err
	}
	return s.throttle, nil
}

// Interface guards.
var (
	_ caddy.App          = (*App)(nil)
	_ caddy.Provisioner  = (*App)(nil)
	_ caddy.CleanerUpper = (*App)(nil)
)
