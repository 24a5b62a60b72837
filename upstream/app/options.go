package app

import (
	"cmp"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/assertion"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/upstream/account"
	"github.com/caddy-tollgate/tollgate/upstream/account/database"
	"github.com/caddy-tollgate/tollgate/upstream/rates/ecb"
	"github.com/caddy-tollgate/tollgate/upstream/server"
)

// Options are the data of an App and what it works with. All but Database
// and Rates are required.
type Options struct {
	// Directory holds the rates and, without Database, the accounts. It is
	// created when it is missing.
	Directory string

	// Database is the URL of a PostgreSQL database for the accounts. Empty
	// for a SQLite file in Directory.
	Database string

	// Rates is the base URL of the ECB's files. Empty: none are fetched.
	Rates string

	// Control calls the gate's control API. The App does not close its
	// connections.
	Control *client.Client

	// Logger gets what clients must not read.
	Logger *slog.Logger
}

// Site is one address that an App answers at.
type Site struct {
	// Address is the public address of the site as a Caddyfile has it, such
	// as "https://rates.example". With HTTPS, session cookies are sent over
	// TLS only.
	Address string

	// Timezone is the IANA zone whose midnight resets the quotas, for the
	// page that people see before they sign in.
	Timezone string

	// SignUp is the plan of accounts that strangers create. The gate must
	// have it. Empty: strangers cannot create accounts.
	SignUp string

	// NoRates leaves out the currency API: the site has accounts and pages,
	// for another API behind the gate. Without a site that has the currency
	// API, no rates are read or fetched.
	NoRates bool

	// Name is what the pages call the product. Default: "Currency API", or
	// "API" with NoRates.
	Name string

	// Logo is the file of an image beside the name. Default: the logo of
	// this repository.
	Logo string

	// Contact is where people reach the operator: an HTTP or HTTPS URL, or
	// an e-mail address. Default: none.
	Contact string

	// Check returns nil for a request that the gate passed for a purpose,
	// assertion.Call or assertion.Login, and otherwise why it is refused.
	// CheckAssertions returns the check for a gate in another process.
	Check func(r *http.Request, purpose string) error
}

// OptionError is an invalid option.
type OptionError struct {
	Option string
	// Value is empty where it could hold a password.
	Value string
	// Want says what is allowed.
	Want string
}

func (e *OptionError) Error() string {
	if e.Value == "" {
		return fmt.Sprintf("invalid %s: want %s", e.Option, e.Want)
	}
	return fmt.Sprintf("invalid %s %q: want %s", e.Option, e.Value, e.Want)
}

// Misuse marks the error as one of the command line, for programs that take
// options from there.
func (*OptionError) Misuse() {}

// The defaults of settings, for every program with an App.
const (
	DefaultAddress = "http://localhost:8080"
	DefaultData    = "./data"
)

// Directory returns the directory of an App in a data directory, beside the
// gate's.
func Directory(data string) string { return filepath.Join(data, "upstream") }

// NoRates is the setting of rates for a site without the currency API.
const NoRates = "none"

// RatesURL returns the Rates of a setting: empty for "embedded", and the ECB's
// URL for an empty setting. It is also the ECB's for NoRates: a later site of
// the App can have the currency API.
func RatesURL(setting string) string {
	switch setting {
	case "embedded":
		return ""
	case NoRates:
		return ecb.BaseURL
	}
	return cmp.Or(setting, ecb.BaseURL)
}

// SignUpPlan returns the SignUp of a setting: none for "off" and an empty
// setting, the plan free for "on", and otherwise the plan that it names.
func SignUpPlan(setting string) string {
	switch setting {
	case "off":
		return ""
	case "on":
		return account.FreePlan
	}
	return setting
}

// Validate returns an *OptionError if an option is invalid. It opens nothing.
func (o Options) Validate() error {
	if o.Directory == "" {
		return &OptionError{"directory", "", "a directory for the data"}
	}
	u, err := url.Parse(o.Rates)
	switch {
	case err != nil || o.Rates != "" && (u.Host == "" || u.Scheme != "http" && u.Scheme != "https"):
		return &OptionError{"rates", "", "an HTTP or HTTPS URL, embedded or none"}
	case o.Database != "" && !database.IsURL(o.Database):
		return &OptionError{"database", "", "a URL that begins with postgres://"}
	case o.Control == nil:
		return &OptionError{"control", "", "a client of the control API"}
	case o.Logger == nil:
		return &OptionError{"logger", "", "a logger"}
	}
	return nil
}

// Validate returns an *OptionError if a part of the site is invalid, or why
// the logo cannot be read.
func (s Site) Validate() error {
	if _, err := PublicURL(s.Address); err != nil {
		return err
	}
	if _, err := time.LoadLocation(s.Timezone); err != nil || s.Timezone == "" || s.Timezone == "Local" {
		return &OptionError{"timezone", s.Timezone, "an IANA zone such as Europe/Berlin"}
	}
	// A plan with such a name is more likely a switch with the wrong word.
	if slices.Contains([]string{"true", "false", "yes", "no", "1", "0"}, s.SignUp) {
		return &OptionError{"signup", s.SignUp, "off, on or the name of a plan"}
	}
	if s.Check == nil {
		return &OptionError{"check", "", "a check of requests"}
	}
	_, err := s.brand()
	return err
}

// Secure tells whether session cookies are sent over TLS only.
func (s Site) Secure() bool {
	address, err := PublicURL(s.Address)
	return err == nil && address.Scheme == "https"
}

// CheckAssertions returns a check for a Site: it accepts a request with
// one Tollgate-Assertion that the gate of this secret made for a host of
// the address. The gate may sign with a newer secret: it tells its keys.
func CheckAssertions(secret, address string, gate *client.Client, logger *slog.Logger) (func(r *http.Request, purpose string) error, error) {
	accepts, err := siteHosts(address)
	if err != nil {
		return nil, err
	}
	key, err := assertion.NewKey(secret)
	if err != nil {
		return nil, err
	}
	verifier := assertion.NewVerifier(accepts, time.Now, key)
	verifier.FetchKeys(gate.PublicKeys, func(err error) {
		logger.Warn("an assertion has an unknown key", slog.Any("error", err))
	})
	return server.CheckAssertion(verifier), nil
}
