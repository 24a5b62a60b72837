package caddymodule

import (
	"errors"
	"fmt"
	"maps"
	"slices"
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
//		store <module> <arguments...> { ... }
//		secret <secret> [<old secret>]
//		proof static
//		mode enforce|shadow
//		warn <percentages...>
//		webhook <url> {
//			secret <whsec_...>
//			events <names...>
//		}
//		timezone <zone>
//		guard <prefixes...>
//		login <method> <path> {
//			per_client <attempts> <window>
//			per_account <free failures> <first wait> <longest wait>
//			strict
//		}
//		login_ttl <duration>
//		usage <method> <path>
//		cors <origins...> {
//			max_age <duration>
//		}
//		token_header <name>
//		foreign_keys on|off
//		identity <placeholder> [plan <plan>] [prefix <text>]
//		introspection_secret <secret>
//		endpoint <name> <method> <path> {
//			ability <name>
//			upgrade
//			keep <headers...>
//			cost <number>|json <member> [<size>]
//		}
//		plan <name> {
//			<endpoint>|* <number>|unlimited [second|minute|hour|day|month]
//		}
//		docs <url>|<path>
//		refund never|unreachable|server_errors
//		errors json|pass
//	}
//
// guard, login, endpoint and plan can occur several times. per_client and
// per_account can occur in one login: all logins share them. strict is for the
// login that has it. The whole configuration is validated here and in
// Provision, because only the parser knows file and line.
func parseApp(d *caddyfile.Dispenser, existing any) (any, error) {
	d.Next() // the option's name
	if existing != nil {
		return nil, d.Err("duplicate option tollgate")
	}
	if d.NextArg() {
		return nil, d.Err("wrong number of arguments: write tollgate { ... }")
	}
	p := newParser(d)
	p.lines[""] = at(d)
	for options, nesting := p.options(), d.Nesting(); d.NextBlock(nesting); {
		if err := p.option("", options); err != nil {
			return nil, err
		}
	}
	if err := p.validate(); err != nil {
		return nil, err
	}
	return httpcaddyfile.App{Name: "tollgate", Value: caddyconfig.JSON(p.app, nil)}, nil
}

// parseGate parses the directive, which has no arguments:
//
//	tollgate
//
// It has no matcher either: the option guard defines what is closed. A
// request that bypassed the gate would reach the upstream with any identity
// that it claims.
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

// position is a place in the configuration.
type position struct {
	file string
	line int
}

func at(d *caddyfile.Dispenser) position { return position{d.File(), d.Line()} }

// parser fills an App and remembers the position of each part.
type parser struct {
	d     *caddyfile.Dispenser
	app   *App
	lines map[string]position // by the subject of a policy.Error
}

func newParser(d *caddyfile.Dispenser) *parser {
	return &parser{d: d, app: &App{}, lines: map[string]position{}}
}

// option is an option of a block.
type option struct {
	syntax string // how it is written, without its block
	args   int    // how many arguments it has, or someArgs
	// repeats says that the option can occur several times. Then parse
	// finds duplicates.
	repeats bool
	parse   func(args []string) error
}

// someArgs is one argument or more.
const someArgs = -1

// options are the options of the global option tollgate.
func (p *parser) options() map[string]option {
	app := p.app
	return map[string]option{
		"store":     {syntax: "store <module> <arguments...>", args: someArgs, parse: p.store},
		"secret":    {syntax: secretSyntax, args: someArgs, parse: p.secret},
		"mode":      {syntax: "mode enforce|shadow", args: 1, parse: setText(&app.Mode)},
		"warn":      {syntax: "warn <percentages...>", args: someArgs, parse: p.warn},
		"webhook":   {syntax: "webhook <url>", args: 1, parse: p.webhook},
		"proof":     {syntax: "proof static", args: 1, parse: setText(&app.Proof)},
		"timezone":  {syntax: "timezone <zone>", args: 1, parse: setText(&app.Timezone)},
		"guard":     {syntax: "guard <prefixes...>", args: someArgs, repeats: true, parse: p.guard},
		"login":     {syntax: "login <method> <path>", args: 2, repeats: true, parse: p.login},
		"login_ttl": {syntax: "login_ttl <duration>", args: 1, parse: p.setValues(&app.LoginTTL)},
		"usage":     {syntax: "usage <method> <path>", args: 2, parse: p.usage},
		"endpoint":  {syntax: "endpoint <name> <method> <path>", args: 3, repeats: true, parse: p.endpoint},
		"plan":      {syntax: "plan <name>", args: 1, repeats: true, parse: p.plan},
		"cors":      {syntax: "cors <origins...>", args: someArgs, parse: p.cors},
		"identity":  {syntax: identitySyntax, args: someArgs, parse: p.identity},
		"docs":      {syntax: "docs <url>|<path>", args: 1, parse: setText(&app.Docs)},
		"refund":    {syntax: "refund never|unreachable|server_errors", args: 1, parse: setText(&app.Refund)},
		"errors":    {syntax: "errors json|pass", args: 1, parse: setText(&app.Errors)},

		"token_header":         {syntax: "token_header <name>", args: 1, parse: setText(&app.TokenHeader)},
		"foreign_keys":         setSwitch(p.d, "foreign_keys", &app.ForeignKeys),
		"introspection_secret": {syntax: "introspection_secret <secret>", args: 1, parse: setText(&app.IntrospectionSecret)},
	}
}

// option parses one line of a block. The subject of an option is the prefix
// and its name.
func (p *parser) option(prefix string, options map[string]option) error {
	name := p.d.Val()
	o, known := options[name]
	if !known {
		return p.d.Errf("unknown option %q: use %s", name, strings.Join(slices.Sorted(maps.Keys(options)), ", "))
	}
	if !o.repeats {
		if err := p.once(prefix+name, "option", name); err != nil {
			return err
		}
	}
	args := p.d.RemainingArgs()
	if o.args != len(args) && (o.args != someArgs || len(args) == 0) {
		return p.d.Errf("wrong number of arguments: write %s", o.syntax)
	}
	return o.parse(args)
}

// block parses an optional block.
func (p *parser) block(prefix string, options map[string]option) error {
	return p.eachLine(func() error { return p.option(prefix, options) })
}

// eachLine calls parse at the first word of each line of an optional block.
func (p *parser) eachLine(parse func() error) error {
	for nesting := p.d.Nesting(); p.d.NextBlock(nesting); {
		if err := parse(); err != nil {
			return err
		}
	}
	return refuseEmptyBlock(p.d)
}

// once remembers the position of a subject, and refuses a duplicate.
func (p *parser) once(subject, kind, name string) error {
	if first, duplicate := p.lines[subject]; duplicate {
		return p.d.Errf("duplicate %s %q (first at %s:%d)", kind, name, first.file, first.line)
	}
	p.lines[subject] = at(p.d)
	return nil
}

func setText[T ~string](into *T) func([]string) error {
	return func(args []string) error {
		*into = T(args[0])
		return nil
	}
}

// setSwitch parses an option that is on or off.
func setSwitch(d *caddyfile.Dispenser, name string, into *bool) option {
	return option{syntax: name + " on|off", args: 1, parse: func(args []string) error {
		if *into = args[0] == "on"; !*into && args[0] != "off" {
			return d.Errf("invalid value %q of %s: use on or off", args[0], name)
		}
		return nil
	}}
}

// setValues parses each argument into a *int or a *policy.Duration.
func (p *parser) setValues(into ...any) func([]string) error {
	return func(args []string) error {
		var errs []error
		for i, text := range args {
			switch into := into[i].(type) {
			case *int:
				n, err := strconv.Atoi(text)
				if err != nil || n < 1 {
					errs = append(errs, p.d.Errf("invalid number %q: use a whole number above zero", text))
				}
				*into = n
			case *policy.Duration:
				d, err := caddy.ParseDuration(text)
				if err != nil || d <= 0 {
					errs = append(errs, p.d.Errf("invalid duration %q: use a duration above zero, such as 90s or 24h", text))
				}
				*into = policy.Duration(d)
			}
		}
		return errors.Join(errs...)
	}
}

func (p *parser) store(args []string) error {
	if strings.Contains(args[0], "://") { // Caddy's error would print its password
		return p.d.Err("wrong number of arguments: write store <module> <arguments...>")
	}
	for range args[1:] {
		p.d.Prev() // the module parses its arguments
	}
	module, err := caddyfile.UnmarshalModule(p.d, "tollgate.stores."+args[0])
	if err != nil {
		return err
	}
	p.app.StoreRaw = caddyconfig.JSONModuleObject(module, "module", args[0], nil)
	return refuseEmptyBlock(p.d) // which the module does not see
}

const secretSyntax = "secret <secret> [<old secret>]"

func (p *parser) secret(args []string) error {
	switch len(args) {
	case 2:
		p.app.OldSecret = args[1]
	case 1:
	default:
		return p.d.Errf("wrong number of arguments: write %s", secretSyntax)
	}
	p.app.Secret = args[0]
	return nil
}

func (p *parser) warn(args []string) error {
	for _, text := range args {
		percent, err := strconv.Atoi(strings.TrimSuffix(text, "%"))
		if err != nil {
			return p.d.Errf("invalid percentage %q of warn: use whole numbers from 1 to 100", text)
		}
		p.app.Warn = append(p.app.Warn, percent)
	}
	return nil
}

func (p *parser) guard(prefixes []string) error {
	for _, prefix := range prefixes {
		if err := p.once("guard "+prefix, "guard", prefix); err != nil {
			return err
		}
	}
	p.app.Guard = append(p.app.Guard, prefixes...)
	return nil
}

func (p *parser) login(args []string) error {
	pattern := args[0] + " " + args[1]
	if err := p.once("login "+pattern, "login", pattern); err != nil {
		return err
	}
	p.app.Logins = append(p.app.Logins, pattern)
	t := &p.app.LoginThrottle
	return p.block("", map[string]option{
		"per_client": {syntax: "per_client <attempts> <window>", args: 2, parse: p.setValues(&t.PerClient, &t.Window)},
		"per_account": {syntax: "per_account <free failures> <first wait> <longest wait>", args: 3,
			parse: p.setValues(&t.FreeFailures, &t.FirstWait, &t.MaxWait)},
		"strict": {syntax: "strict", repeats: true, parse: func([]string) error {
			p.app.StrictLogins = append(p.app.StrictLogins, pattern)
			return p.once("strict "+pattern, "option", "strict")
		}},
	})
}

func (p *parser) usage(args []string) error {
	p.app.Usage = args[0] + " " + args[1]
	return nil
}

// refuseEmptyBlock refuses a block without lines, which is a mistake:
// defaults would apply silently. NextBlock treats it as no block, and stops
// at its closing brace.
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

// validate validates the configuration as Provision does, and adds the
// position to each error. A secret with a placeholder, that of the webhook
// too, is validated in Provision only.
func (p *parser) validate() error {
	errs := []error{checkErrors(p.app.Errors), checkProof(p.app.Proof), checkTokenHeader(p.app.TokenHeader)}
	if !strings.Contains(p.app.Secret, "{") {
		errs = append(errs, checkSecret(p.app.Secret))
	}
	if old := p.app.OldSecret; old != "" && !strings.Contains(old, "{") {
		errs = append(errs, checkSecret(old))
	}
	if s := p.app.IntrospectionSecret; s != "" && !strings.Contains(s, "{") {
		errs = append(errs, checkIntrospectionSecret(s, p.app.Secret, p.app.OldSecret))
	}
	if p.app.StoreRaw == nil {
		errs = append(errs, errNoStore)
	}
	errs = append(errs, p.app.Webhook.check())
	_, err := policy.New(p.app.Config)
	return p.locate(errors.Join(append(errs, err)...))
}

// locate adds file and line to each error of a tree of joined errors. An
// error without a known subject gets those of the option tollgate.
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
