package caddymodule

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"

	"github.com/caddy-tollgate/tollgate/caddymodule/policy"
)

// parseApp parses the global option:
//
//	tollgate {
//		store <module> <args...> { ... }
//		secret <secret>
//		proof static
//		timezone <zone>
//		guard <prefixes...>
//		login <method> <path> {
//			per_client <attempts> <window>
//			per_account <free failures> <first wait> <longest wait>
//		}
//		login_ttl <duration>
//		usage <method> <path>
//		endpoint <name> <method> <path> {
//			ability <name>
//			upgrade
//		}
//		plan <name> {
//			<endpoint> <limit>|unlimited
//		}
//		refund never|unreachable|server_errors
//		errors json|pass
//	}
//
// guard, login, endpoint and plan may stand several times, the others
// once. What the options mean together is judged here as well as in
// Provision, because here the line is known.
func parseApp(d *caddyfile.Dispenser, existing any) (any, error) {
	d.Next() // the option's name
	if existing != nil {
		return nil, d.Err("duplicate option tollgate")
	}
	if d.NextArg() {
		return nil, d.ArgErr()
	}
	p := &parser{d: d, app: &App{}, lines: map[string]position{"": at(d)}}
	for nesting := d.Nesting(); d.NextBlock(nesting); {
		if err := p.option(); err != nil {
			return nil, err
		}
	}
	if err := p.check(); err != nil {
		return nil, err
	}
	return httpcaddyfile.App{Name: "tollgate", Value: caddyconfig.JSON(p.app, nil)}, nil
}

// parseGate parses the directive, which has no arguments:
//
//	tollgate
//
// Not even a matcher: the guard says what is closed, and requests that
// went around the gate would reach the upstream with whatever identity
// they claim.
func parseGate(h httpcaddyfile.Helper) ([]httpcaddyfile.ConfigValue, error) {
	h.Next() // the directive's name
	if h.NextArg() {
		return nil, h.Err("the directive tollgate has no arguments and no matcher; the option guard says what is closed")
	}
	if h.NextBlock(0) || refuseEmptyBlock(h.Dispenser) != nil {
		return nil, h.Err("the directive tollgate has no options and no block; the options belong to the global option tollgate")
	}
	return h.NewRoute(nil, new(Gate)), nil
}

// position is where a part of the configuration stands.
type position struct {
	file string
	line int
}

func at(d *caddyfile.Dispenser) position { return position{d.File(), d.Line()} }

// parser fills an App and remembers where each part came from.
type parser struct {
	d     *caddyfile.Dispenser
	app   *App
	lines map[string]position // by the subject of a policy.Error
}

// options reads the arguments of each option behind its name.
var options = map[string]func(*parser) error{
	"store":     (*parser).store,
	"secret":    func(p *parser) error { return p.text("secret", &p.app.Secret) },
	"proof":     func(p *parser) error { return p.text("proof", &p.app.Proof) },
	"timezone":  func(p *parser) error { return p.text("timezone", &p.app.Timezone) },
	"guard":     (*parser).guard,
	"login":     (*parser).login,
	"login_ttl": func(p *parser) error { return p.duration("login_ttl", &p.app.LoginTTL) },
	"usage":     (*parser).usage,
	"endpoint":  (*parser).endpoint,
	"plan":      (*parser).plan,
	"refund":    func(p *parser) error { return p.text("refund", (*string)(&p.app.Refund)) },
	"errors":    func(p *parser) error { return p.text("errors", &p.app.Errors) },
}

func (p *parser) option() error {
	parse, known := options[p.d.Val()]
	if !known {
		return p.d.Errf("unknown option %q", p.d.Val())
	}
	return parse(p)
}

// once notes where a subject stands, and refuses a second one.
func (p *parser) once(subject string) error {
	if first, twice := p.lines[subject]; twice {
		return p.d.Errf("%s stands there twice, first at %s:%d", subject, first.file, first.line)
	}
	p.lines[subject] = at(p.d)
	return nil
}

// syntax is how each option is written, without its block.
var syntax = map[string]string{
	"store":       "store <module> <arguments...>",
	"secret":      "secret <secret>",
	"proof":       "proof static",
	"timezone":    "timezone <zone>",
	"guard":       "guard <prefixes...>",
	"login":       "login <method> <path>",
	"per_client":  "per_client <attempts> <window>",
	"per_account": "per_account <free failures> <first wait> <longest wait>",
	"login_ttl":   "login_ttl <duration>",
	"usage":       "usage <method> <path>",
	"endpoint":    "endpoint <name> <method> <path>",
	"ability":     "ability <name>",
	"upgrade":     "upgrade",
	"plan":        "plan <name>",
	"refund":      "refund never|unreachable|server_errors",
	"errors":      "errors json|pass",
}

// argErr refuses the arguments of an option, which may be too few or too
// many.
func (p *parser) argErr(option string) error {
	if form, known := syntax[option]; known {
		return p.d.Errf("wrong number of arguments: write %s", form)
	}
	return p.d.ArgErr()
}

// args reads exactly as many arguments of an option as it is given places
// for.
func (p *parser) args(into ...*string) error {
	option := p.d.Val()
	if !p.d.AllArgs(into...) {
		return p.argErr(option)
	}
	return nil
}

func (p *parser) text(name string, into *string) error {
	if err := p.once(name); err != nil {
		return err
	}
	return p.args(into)
}

func (p *parser) duration(name string, into *policy.Duration) error {
	var text string
	if err := p.text(name, &text); err != nil {
		return err
	}
	return p.parseDuration(text, into)
}

func (p *parser) parseDuration(text string, into *policy.Duration) error {
	d, err := caddy.ParseDuration(text)
	if err != nil || d <= 0 {
		return p.d.Errf("%q is not a duration above zero, such as 90s or 24h", text)
	}
	*into = policy.Duration(d)
	return nil
}

func (p *parser) store() error {
	if err := p.once("store"); err != nil {
		return err
	}
	if !p.d.NextArg() {
		return p.argErr("store")
	}
	name := p.d.Val()
	module, err := caddyfile.UnmarshalModule(p.d, "tollgate.stores."+name)
	if err != nil {
		return err
	}
	p.app.StoreRaw = caddyconfig.JSONModuleObject(module, "module", name, nil)
	return refuseEmptyBlock(p.d) // which the module does not see
}

func (p *parser) guard() error {
	prefixes := p.d.RemainingArgs()
	if len(prefixes) == 0 {
		return p.argErr("guard")
	}
	for _, prefix := range prefixes {
		if err := p.once("guard " + prefix); err != nil {
			return err
		}
	}
	p.app.Guard = append(p.app.Guard, prefixes...)
	return nil
}

func (p *parser) login() error {
	var method, path string
	if err := p.args(&method, &path); err != nil {
		return err
	}
	pattern := method + " " + path
	if err := p.once("login " + pattern); err != nil {
		return err
	}
	p.app.Logins = append(p.app.Logins, pattern)
	return p.block(map[string]func() error{"per_client": p.perClient, "per_account": p.perAccount})
}

// The throttle's limits may stand in one login's block: all logins share
// them.
func (p *parser) perClient() error {
	t := &p.app.LoginThrottle
	var attempts, window string
	if err := p.once("per_client"); err != nil {
		return err
	}
	if err := p.args(&attempts, &window); err != nil {
		return err
	}
	return errors.Join(p.number(attempts, &t.PerClient), p.parseDuration(window, &t.Window))
}

func (p *parser) perAccount() error {
	t := &p.app.LoginThrottle
	var free, first, longest string
	if err := p.once("per_account"); err != nil {
		return err
	}
	if err := p.args(&free, &first, &longest); err != nil {
		return err
	}
	return errors.Join(p.number(free, &t.FreeFailures), p.parseDuration(first, &t.FirstWait), p.parseDuration(longest, &t.MaxWait))
}

func (p *parser) number(text string, into *int) error {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return p.d.Errf("%q is not a whole number above zero", text)
	}
	*into = n
	return nil
}

func (p *parser) usage() error {
	var method, path string
	if err := p.once("usage"); err != nil {
		return err
	}
	err := p.args(&method, &path)
	p.app.Usage = method + " " + path
	return err
}

func (p *parser) endpoint() error {
	var e policy.EndpointConfig
	if err := p.args(&e.Name, &e.Method, &e.Path); err != nil {
		return err
	}
	subject := "endpoint " + e.Name
	if err := p.once(subject); err != nil {
		return err
	}
	err := p.block(map[string]func() error{
		"ability": func() error { return p.text(subject+" ability", &e.Ability) },
		"upgrade": func() error {
			e.Upgrade = true
			return errors.Join(p.once(subject+" upgrade"), p.args())
		},
	})
	p.app.Endpoints = append(p.app.Endpoints, e)
	return err
}

func (p *parser) plan() error {
	plan := policy.PlanConfig{Limits: map[string]policy.Limit{}}
	if err := p.args(&plan.Name); err != nil {
		return err
	}
	subject := "plan " + plan.Name
	if err := p.once(subject); err != nil {
		return err
	}
	p.app.Plans = append(p.app.Plans, plan)
	return eachLine(p.d, func() error {
		name := p.d.Val()
		if err := p.once(subject + " " + name); err != nil {
			return err
		}
		var text string
		if !p.d.AllArgs(&text) {
			return p.d.Errf("wrong number of arguments: write %s <limit>|unlimited", name)
		}
		limit, err := policy.ParseLimit(text)
		if err != nil {
			return p.d.WrapErr(err)
		}
		plan.Limits[name] = limit
		return nil
	})
}

// block reads an optional block of suboptions.
func (p *parser) block(suboptions map[string]func() error) error {
	return eachLine(p.d, func() error {
		parse, known := suboptions[p.d.Val()]
		if !known {
			return p.d.Errf("unknown option %q", p.d.Val())
		}
		return parse()
	})
}

// eachLine calls parse at the first word of each line of an optional
// block.
func eachLine(d *caddyfile.Dispenser, parse func() error) error {
	for nesting := d.Nesting(); d.NextBlock(nesting); {
		if err := parse(); err != nil {
			return err
		}
	}
	return refuseEmptyBlock(d)
}

// refuseEmptyBlock refuses a block without lines: what it was meant to
// change would silently keep its default. NextBlock takes such a block for
// none, and stops at its closing brace.
func refuseEmptyBlock(d *caddyfile.Dispenser) error {
	if d.ValRaw() != "}" || !d.Prev() {
		return nil
	}
	empty := d.ValRaw() == "{"
	d.Next()
	if !empty {
		return nil
	}
	return d.Err("empty block: fill it or remove its braces")
}

// check judges the configuration as Provision will, and points each
// mistake at its line. A secret with a placeholder is not known before
// that.
func (p *parser) check() error {
	errs := []error{checkErrors(p.app.Errors), checkProof(p.app.Proof)}
	if !strings.Contains(p.app.Secret, "{") {
		errs = append(errs, checkSecret(p.app.Secret))
	}
	if p.app.StoreRaw == nil {
		errs = append(errs, errNoStore)
	}
	_, err := policy.New(p.app.Config)
	return p.locate(errors.Join(append(errs, err)...))
}

// locate gives each error in a tree of joined ones its file and line, or
// those of the option as a whole.
func (p *parser) locate(err error) error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var located []error
		for _, e := range joined.Unwrap() {
			located = append(located, p.locate(e))
		}
		return errors.Join(located...)
	}
	if err == nil {
		return nil
	}
	where, known := p.lines[policy.Subject(err)]
	if !known {
		where = p.lines[""]
	}
	return fmt.Errorf("%w, at %s:%d", err, where.file, where.line)
}
