package app

import (
	"cmp"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/assertion"
	"github.com/caddy-tollgate/tollgate/upstream/currency/rates/ecb"
	"github.com/caddy-tollgate/tollgate/upstream/portal/account"
	"github.com/caddy-tollgate/tollgate/upstream/portal/account/database"
	"github.com/caddy-tollgate/tollgate/upstream/portal/web"
)

// Settings are what the operator sets, as text: by flags and variables of
// bin/upstream, or by options of the handler tollgate_upstream. An empty text
// is the default.
type Settings struct {
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

	// Timezone is the IANA zone whose midnight resets the quotas, for the page
	// that people see before they sign in. The handler has the gate's.
	// Default: UTC.
	Timezone string `json:"-"`
}

// Setting is one of the Settings.
type Setting struct {
	// Name is the option of a Caddyfile, and the flag.
	Name    string
	Value   *string
	Default string
	// Argument is the syntax in a Caddyfile. Empty: the handler has no such
	// option.
	Argument string
	// Usage describes the flag. Empty: there is none, since other users of the
	// machine can read flags.
	Usage string
}

// Variable returns the environment variable of the setting.
func (s Setting) Variable() string { return "TOLLGATE_" + strings.ToUpper(s.Name) }

// All lists the settings.
func (s *Settings) All() []Setting {
	return []Setting{
		{"address", &s.Address, DefaultAddress, "<address>", "public `URL` of the site; with https, session cookies are sent over TLS only"},
		{"data", &s.Data, "./data", "<directory>", "data `directory`; this program uses upstream/ in it"},
		{"database", &s.Database, "", "<url>", ""},
		{"timezone", &s.Timezone, "UTC", "", "IANA `zone` whose midnight resets the quotas"},
		{"signup", &s.SignUp, "off", "off|on|<plan>", "let strangers create an account: off, on for the plan free, or the `plan` they get"},
		{"name", &s.Name, "", "<text>", "`text` that the web pages call the product, up to 40 characters"},
		{"logo", &s.Logo, "", "<file>", "`file` of the product's logo: SVG, PNG, WebP or JPEG, up to 256 KiB"},
		{"contact", &s.Contact, "", "<url>|<e-mail>", "`URL` or e-mail address where people reach the operator"},
		{"rates", &s.Rates, ecb.BaseURL, "<url>|embedded|none", "`URL` of the ECB's files, embedded to fetch nothing, or none to leave out the currency API"},
	}
}

// DefaultAddress is the default of Settings.Address.
const DefaultAddress = "http://localhost:8080"

// WantAddress says what Settings.Address can be.
const WantAddress = "http://host or https://host"

// NoRates is the setting of rates for a site without the currency API.
const NoRates = "none"

// Config is what an App and its sites get: checked Settings.
type Config struct {
	// Directory holds the rates and, without Database, the accounts. It is
	// created when it is missing.
	Directory string
	// Database is the URL of a PostgreSQL database for the accounts. Empty
	// for a SQLite file in Directory.
	Database string
	// RatesURL is the base URL of the ECB's files. Empty: none are fetched.
	// Without a site that has the currency API, no rates are read or fetched.
	RatesURL string

	web.Site
}

// Parse applies the defaults and checks the settings. It opens nothing, but
// reads the logo. The error for an invalid setting is an *OptionError.
func (s Settings) Parse() (c Config, err error) {
	for _, setting := range s.All() {
		*setting.Value = cmp.Or(*setting.Value, setting.Default)
	}
	c = Config{Database: s.Database, Site: web.Site{Timezone: s.Timezone, SignUp: s.SignUp, NoRates: s.Rates == NoRates}}
	if c.Directory, err = filepath.Abs(filepath.Join(s.Data, "upstream")); err != nil {
		return Config{}, fmt.Errorf("data: %w", err)
	}
	if s.Database != "" && !database.IsURL(s.Database) {
		return Config{}, &OptionError{"database", "", "a URL that begins with postgres://"}
	}
	if c.RatesURL, err = parseRates(s.Rates); err != nil {
		return Config{}, err
	}
	if c.Address, err = assertion.PublicURL(s.Address); err == nil {
		c.Hosts, err = assertion.Hosts(s.Address)
	}
	if err != nil {
		return Config{}, &OptionError{"address", s.Address, WantAddress}
	}
	if _, err := time.LoadLocation(s.Timezone); err != nil || s.Timezone == "Local" {
		return Config{}, &OptionError{"timezone", s.Timezone, "an IANA zone such as Europe/Berlin"}
	}
	switch {
	case s.SignUp == "off":
		c.SignUp = ""
	case s.SignUp == "on":
		c.SignUp = account.FreePlan
	case slices.Contains([]string{"true", "false", "yes", "no", "1", "0"}, s.SignUp):
		// A plan with such a name is more likely a switch with the wrong word.
		return Config{}, &OptionError{"signup", s.SignUp, "off, on or the name of a plan"}
	}
	c.Brand, err = s.brand()
	return c, err
}

// parseRates returns the URL to fetch rates from. It is the ECB's for NoRates:
// a later site of the App can have the currency API.
func parseRates(setting string) (string, error) {
	switch setting {
	case "embedded":
		return "", nil
	case NoRates:
		return ecb.BaseURL, nil
	}
	u, err := url.Parse(setting)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return "", &OptionError{"rates", "", "an HTTP or HTTPS URL, embedded or none"}
	}
	return setting, nil
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
