package caddyupstream

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-tollgate/tollgate/caddymodule"
	"github.com/caddy-tollgate/tollgate/caddymodule/outage"
	"github.com/caddy-tollgate/tollgate/upstream/app"
	"github.com/caddy-tollgate/tollgate/upstream/server"
)

// Upstream answers requests with the currency API, the logins and the web
// pages, or without the currency API. It answers every request and calls no
// next handler. API calls and logins must have passed the handler tollgate; all
// others get 403.
//
// The database and the rates stay open across reloads. Handlers with the same
// data and database share them.
//
// All options can have placeholders such as {env.NAME} and {file./path},
// which are resolved when the configuration is loaded. An
// empty option has its default. A placeholder inside a longer value must not
// be empty, and neither must a file.
type Upstream struct {
	// Address is the public address of the site, as in the Caddyfile. With
	// https, session cookies are sent over TLS only, so set it for each site
	// with TLS. Default: http://localhost:8080.
	Address string `json:"address,omitempty"`

	// Data is the data directory. The handler uses upstream/ in it, and
	// creates it if it is missing. Default: ./data.
	Data string `json:"data,omitempty"`

	// Database is the URL of a PostgreSQL database for the accounts. It
	// contains a password: use a placeholder. Default: a SQLite file in the
	// data directory.
	Database string `json:"database,omitempty"`

	// SignUp lets strangers create accounts. "on" gives the accounts the plan
	// free, and the name of another plan gives them that plan. The gate must
	// have the plan. Default: off.
	SignUp string `json:"signup,omitempty"`

	// Name is what the web pages call the product, up to 40 characters.
	// Default: Currency API, or API without rates.
	Name string `json:"name,omitempty"`

	// Logo is the file of the product's logo, an SVG, PNG, WebP or JPEG
	// image of up to 256 KiB. It is read when the configuration is loaded.
	// Default: the logo of Tollgate.
	Logo string `json:"logo,omitempty"`

	// Contact is where people reach the operator: an HTTP or HTTPS URL, or
	// an e-mail address. The pages link to it. Default: none.
	Contact string `json:"contact,omitempty"`

	// Rates is the base URL of the files eurofxref-hist.zip and
	// eurofxref-daily.xml. "embedded" fetches nothing. "none" leaves out the
	// currency API: the handler serves accounts and web pages for another API
	// behind the gate. Default: the ECB's URL. Restart Caddy to change the URL.
	Rates string `json:"rates,omitempty"`

	options app.Options
	site    app.Site
	handler atomic.Pointer[http.Handler] // nil until the App is open
	pooled  *appKey                      // of the pooled App that this handler uses, or nil

	secure   bool      // session cookies are sent over TLS only
	insecure sync.Once // the warning that they are not
}

// CaddyModule returns the Caddy module information.
func (*Upstream) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.tollgate_upstream", New: func() caddy.Module { return new(Upstream) }}
}

// Provision checks the options. It opens no database, so that caddy validate
// works while another process uses it: the database is opened when the gate
// starts. If it is open already, the handler uses it from here on, so that a
// reload refuses no request.
func (u *Upstream) Provision(ctx caddy.Context) error {
	gate, err := caddymodule.Configured(ctx)
	if err != nil {
		return err
	}
	if err := u.resolve(gate.Timezone); err != nil {
		return err
	}
	gate.AtStart(u.open)
	return u.join(func() (caddy.Destructor, error) { return nil, errNotOpen })
}

// resolve replaces the placeholders, applies the defaults and checks the
// values.
func (u *Upstream) resolve(timezone string) error {
	values, errs := map[string]string{}, []error{}
	for _, o := range u.settings() {
		value, err := replace(*o.value)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: empty or unknown placeholder", o.name))
		}
		values[o.name] = value
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	directory, err := filepath.Abs(cmp.Or(values["data"], app.DefaultData))
	if err != nil {
		return fmt.Errorf("data: %w", err)
	}
	u.options = app.Options{
		Directory: app.Directory(directory),
		Database:  values["database"],
		Control:   caddymodule.ControlClient(),
		Logger:    outage.Logger(caddymodule.ProcessLog("tollgate.upstream")),
	}
	u.site = app.Site{
		Address:  cmp.Or(values["address"], app.DefaultAddress),
		Timezone: cmp.Or(timezone, "UTC"),
		SignUp:   app.SignUpPlan(values["signup"]),
		NoRates:  values["rates"] == app.NoRates,
		Name:     values["name"],
		Logo:     values["logo"],
		Contact:  values["contact"],
		Check:    check,
	}
	u.options.Rates = app.RatesURL(values["rates"])
	u.secure = u.site.Secure()
	return errors.Join(u.options.Validate(), u.site.Validate())
}

// replace replaces the placeholders of an option. An option of empty
// variables is empty, so that it has its default. An empty part of an option
// is an error, for example a missing password. An empty file is one too.
func replace(option string) (string, error) {
	repl := caddy.NewReplacer()
	value, err := repl.ReplaceOrErr(option, false, true)
	if err == nil && value == "" && !strings.Contains(option, "{file.") {
		return "", nil
	}
	return repl.ReplaceOrErr(option, true, true)
}

// setting is an option with its argument as a Caddyfile has it.
type setting struct {
	name, argument string
	value          *string
}

// settings returns all options.
func (u *Upstream) settings() []setting {
	return []setting{
		{"address", "<address>", &u.Address},
		{"data", "<directory>", &u.Data},
		{"database", "<url>", &u.Database},
		{"signup", "off|on|<plan>", &u.SignUp},
		{"name", "<text>", &u.Name},
		{"logo", "<file>", &u.Logo},
		{"contact", "<url>|<e-mail>", &u.Contact},
		{"rates", "<url>|embedded|none", &u.Rates},
	}
}

// check accepts a request that the gate has passed for a purpose.
func check(r *http.Request, purpose string) error {
	if !caddymodule.Passed(r, purpose) {
		return server.ErrNotPassed
	}
	return nil
}

// ServeHTTP answers a request. A request before the database is open gets
// 502 from the gate, as from an upstream that has not started.
func (u *Upstream) ServeHTTP(w http.ResponseWriter, r *http.Request, _ caddyhttp.Handler) error {
	handler := u.handler.Load()
	if handler == nil {
		return caddyhttp.Error(http.StatusBadGateway, errNotOpen)
	}
	if r.TLS != nil && !u.secure {
		u.insecure.Do(func() {
			u.options.Logger.Warn("session cookies are sent without TLS too: set the option address to the https address of the site")
		})
	}
	(*handler).ServeHTTP(w, r)
	return nil
}

// Cleanup releases the App. It is closed when no configuration uses it.
func (u *Upstream) Cleanup() error { return u.leave() }

// Interface guards.
var (
	_ caddy.Provisioner           = (*Upstream)(nil)
	_ caddy.CleanerUpper          = (*Upstream)(nil)
	_ caddyhttp.MiddlewareHandler = (*Upstream)(nil)
)
