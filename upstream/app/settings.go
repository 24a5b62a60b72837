package app

import (
	"cmp"
	"slices"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/assertion"
	"github.com/caddy-tollgate/tollgate/upstream/currency/feed"
	"github.com/caddy-tollgate/tollgate/upstream/option"
	"github.com/caddy-tollgate/tollgate/upstream/portal"
	"github.com/caddy-tollgate/tollgate/upstream/portal/account"
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

// All lists the settings.
func (s *Settings) All() []option.Setting {
	return []option.Setting{
		{Name: "address", Value: &s.Address, Default: portal.DefaultAddress, Argument: "<address>", Usage: "public `URL` of the site; with https, session cookies are sent over TLS only"},
		option.Data(&s.Data),
		{Name: "database", Value: &s.Database, Argument: "<url>"},
		{Name: "timezone", Value: &s.Timezone, Default: "UTC", Usage: "IANA `zone` whose midnight resets the quotas"},
		{Name: "signup", Value: &s.SignUp, Default: "off", Argument: "off|on|<plan>", Usage: "let strangers create an account: off, on for the plan free, or the `plan` they get"},
		{Name: "name", Value: &s.Name, Argument: "<text>", Usage: "`text` that the web pages call the product, up to 40 characters"},
		{Name: "logo", Value: &s.Logo, Argument: "<file>", Usage: "`file` of the product's logo: SVG, PNG, WebP or JPEG, up to 256 KiB"},
		{Name: "contact", Value: &s.Contact, Argument: "<url>|<e-mail>", Usage: "`URL` or e-mail address where people reach the operator"},
		feed.Setting(&s.Rates),
	}
}

// Config is what an App and its sites get: checked Settings.
type Config struct {
	// Place is where the accounts are. Its directory holds the rates too.
	portal.Place
	// RatesURL is the base URL of the ECB's files. Empty: none are fetched.
	// Without a site that has the currency API, no rates are read or fetched.
	RatesURL string

	web.Site
}

// Parse applies the defaults and checks the settings. It opens nothing, but
// reads the logo. The error for an invalid setting is an *option.Error.
func (s Settings) Parse() (c Config, err error) {
	for _, setting := range s.All() {
		*setting.Value = cmp.Or(*setting.Value, setting.Default)
	}
	c = Config{Site: web.Site{Timezone: s.Timezone, SignUp: s.SignUp, NoRates: s.Rates == feed.None}}
	c.Database = s.Database
	if c.Directory, err = option.Directory(s.Data); err != nil {
		return Config{}, err
	}
	if err := c.Place.Check(); err != nil {
		return Config{}, err
	}
	if c.RatesURL, err = feed.ParseURL(s.Rates); err != nil {
		return Config{}, err
	}
	if c.Address, err = assertion.PublicURL(s.Address); err == nil {
		c.Hosts, err = assertion.Hosts(s.Address)
	}
	if err != nil {
		return Config{}, &option.Error{Option: "address", Value: s.Address, Want: portal.WantAddress}
	}
	if _, err := time.LoadLocation(s.Timezone); err != nil || s.Timezone == "Local" {
		return Config{}, &option.Error{Option: "timezone", Value: s.Timezone, Want: "an IANA zone such as Europe/Berlin"}
	}
	switch {
	case s.SignUp == "off":
		c.SignUp = ""
	case s.SignUp == "on":
		c.SignUp = account.FreePlan
	case slices.Contains([]string{"true", "false", "yes", "no", "1", "0"}, s.SignUp):
		// A plan with such a name is more likely a switch with the wrong word.
		return Config{}, &option.Error{Option: "signup", Value: s.SignUp, Want: "off, on or the name of a plan"}
	}
	c.Brand, err = web.NewBrand(s.Name, s.Logo, s.Contact)
	return c, err
}
