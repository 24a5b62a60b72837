package caddymodule

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"

	"github.com/caddy-tollgate/tollgate/internal/block"
	"github.com/caddy-tollgate/tollgate/internal/feature/event"
	"github.com/caddy-tollgate/tollgate/internal/policy"
	"github.com/caddy-tollgate/tollgate/internal/store"
)

// parseApp parses the global option:
//
//	tollgate {
//		store <module> <arguments...> { ... }
//		secret <secret> [<old secret>]
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
//			strict [on|off]
//		}
//		login_ttl <duration>
//		usage <method> <path>
//		cors <origins...> {
//			max_age <duration>
//		}
//		token_prefix <word>
//		token_header <name>
//		token_basic [on|off]
//		foreign_keys [on|off]
//		identity <placeholder> [plan <plan>] [prefix <text>]
//		anonymous <plan> {
//			per_address <number> second|minute|hour|day|month
//		}
//		introspection_secret <secret>
//		endpoint <name> <methods...>|* <paths...> {
//			route <methods...>|* <paths...>
//			ability <name>
//			rename <old names...>
//			upgrade [on|off]
//			keep <headers...>
//			cost <number>|json <member> [<size>]
//		}
//		plan <name> {
//			<endpoint>|* <number>|unlimited [second|minute|hour|day|month]
//			token_prefix <word>
//		}
//		account <id> <plan> {
//			label <text>
//			disabled [on|off]
//			key <name> sha256:<hash> [<abilities...>]
//		}
//		docs <url>|<path>
//		site <address>
//		refund never|unreachable|server_errors
//		errors json|pass
//	}
//
// guard, login, endpoint, plan, account and key can occur several times. per_client and
// per_account can occur in one login: all logins share them. strict is for the
// login that has it. The whole configuration is validated here and in
// Provision, because only the parser knows file and line.
func parseApp(d *caddyfile.Dispenser, existing any) (any, error) {
	d.Next() // the option's name
	if existing != nil {
		return nil, d.Err("duplicate option tollgate: write all of its options in one block")
	}
	if d.NextArg() {
		return nil, d.Err("wrong arguments: write tollgate { ... }")
	}
	p := &parser{block.New(d), &App{}}
	p.Lines[""] = block.At(d)
	if err := p.options(); err != nil {
		return nil, err
	}
	if len(p.Lines) == 1 {
		return nil, d.Err("no options: write tollgate { at the end of this line, then the options and }")
	}
	_, err := p.app.check(true)
	if err := p.locate(err); err != nil {
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
	if err := refuseOptions(h, "no matcher, arguments or block", "; guard says which paths are closed"); err != nil {
		return nil, err
	}
	return h.NewRoute(nil, new(Gate)), nil
}

// refuseOptions refuses arguments and a block of a directive. The message says
// what the directive has not, and ends with a hint.
func refuseOptions(h httpcaddyfile.Helper, hasNot, hint string) error {
	h.Next() // the directive's name
	name := h.Val()
	if h.NextArg() || h.NextBlock(0) || block.RefuseEmpty(h.Dispenser) != nil {
		return h.Errf("the directive %s has %s: all options belong to the global option tollgate%s", name, hasNot, hint)
	}
	return nil
}

// parser fills an App. The subjects of its lines are those of policy.Error.
type parser struct {
	*block.Parser
	app *App
}

// options parses the block of the global option.
func (p *parser) options() error {
	app := p.app
	var texts []string
	var method, path, name, plan string
	return p.Block("",
		block.Once("store <module> <arguments...>", &texts, func() error { return p.store(texts) }),
		block.Once(secretSyntax, &texts, func() error { return p.secret(texts) }),
		block.Once("introspection_secret <secret>", &app.IntrospectionSecret),
		block.Once("mode enforce|shadow", (*string)(&app.Mode)),
		block.Once("refund never|unreachable|server_errors", (*string)(&app.Refund)),
		block.Once("errors json|pass", &app.Errors),
		block.Once("docs <url>|<path>", &app.Docs),
		block.Once("site <address>", &app.Site),
		block.Once("timezone <zone>", &app.Timezone),
		block.Once(tokenPrefixSyntax, &app.TokenPrefix),
		block.Once("token_header <name>", &app.TokenHeader),
		block.Once("token_basic [on|off]", &app.TokenBasic),
		block.Once("foreign_keys [on|off]", &app.ForeignKeys),
		block.Once("login_ttl <duration>", (*time.Duration)(&app.LoginTTL)),
		block.Once("usage <method> <path>", &method, &path, func() error { app.Usage = method + " " + path; return nil }),
		block.Once("warn <percentages...>", &texts, func() error { return p.warn(texts) }),
		block.Once("webhook <url>", &name, func() error { return p.webhook(name) }),
		block.Once("cors <origins...>", &texts, func() error { return p.cors(texts) }),
		block.Once(identitySyntax, &texts, func() error { return p.identity(texts) }),
		block.Once("anonymous <plan>", &name, func() error { return p.anonymous(name) }),
		block.Often("guard <prefixes...>", &texts, func() error { return p.guard(texts) }),
		block.Often("login <method> <path>", &method, &path, func() error { return p.login(method + " " + path) }),
		block.Often("endpoint <name> <methods...>|* <paths...>", &name, &texts, func() error { return p.endpoint(name, texts) }),
		block.Often("plan <name>", &name, func() error { return p.plan(name) }),
		block.Often("account <id> <plan>", &name, &plan, func() error { return p.account(name, plan) }),
	)
}

// store parses the option store, whose arguments and block belong to a module.
func (p *parser) store(args []string) error {
	name := args[0]
	if strings.Contains(name, "://") { // the error of an unknown store would print its password
		return p.WrongArguments("store <module> <arguments...>")
	}
	if err := checkStore(name); err != nil {
		return p.WrapErr(err)
	}
	for range args[1:] {
		p.Prev() // the module parses its arguments
	}
	module, err := caddyfile.UnmarshalModule(p.Dispenser, storeNamespace+"."+name)
	if err != nil {
		return err
	}
	p.app.StoreRaw = caddyconfig.JSONModuleObject(module, "module", name, nil)
	return block.RefuseEmpty(p.Dispenser) // which the module does not see
}

const secretSyntax = "secret <secret> [<old secret>]"

func (p *parser) secret(args []string) error {
	if len(args) > 2 {
		return p.WrongArguments(secretSyntax)
	}
	p.app.Secret = args[0]
	if len(args) == 2 {
		p.app.OldSecret = args[1]
		p.Lines["old_secret"] = p.Lines["secret"]
	}
	return nil
}

func (p *parser) warn(args []string) error {
	for _, text := range args {
		percent, err := strconv.Atoi(strings.TrimSuffix(text, "%"))
		if err != nil {
			return p.Errf("invalid percentage %q of warn: use whole numbers from 1 to 100", text)
		}
		p.app.Warn = append(p.app.Warn, percent)
	}
	return nil
}

func (p *parser) guard(prefixes []string) error {
	for _, prefix := range prefixes {
		if err := p.Unique("guard "+prefix, "guard", prefix); err != nil {
			return err
		}
	}
	p.app.Guard = append(p.app.Guard, prefixes...)
	return nil
}

func (p *parser) webhook(url string) error {
	w := &event.Webhook{URL: url}
	p.app.Webhook = w
	return p.Block("webhook ",
		block.Once("secret <whsec_...>", &w.Secret),
		block.Once("events <names...>", &w.Events),
	)
}

func (p *parser) cors(origins []string) error {
	c := &policy.CORSConfig{Origins: origins}
	p.app.CORS = c
	return p.Block("cors ", block.Once("max_age <duration>", (*time.Duration)(&c.MaxAge)))
}

const identitySyntax = "identity <placeholder> [plan <plan>] [prefix <text>]"

func (p *parser) identity(args []string) error {
	c := &policy.IdentityConfig{Placeholder: args[0]}
	p.app.Identity = c
	fields := map[string]*string{"plan": &c.Plan, "prefix": &c.Prefix}
	for args = args[1:]; len(args) > 0; args = args[2:] {
		field, known := fields[args[0]]
		if !known || len(args) == 1 || args[1] == "" {
			return p.WrongArguments(identitySyntax)
		}
		*field = args[1]
		delete(fields, args[0])
	}
	return nil
}

func (p *parser) anonymous(plan string) error {
	c := &policy.AnonymousConfig{Plan: plan}
	p.app.Anonymous = c
	var number, period string
	return p.Block("anonymous ",
		block.Often("per_address <number> <period>", &number, &period, func() error {
			limit, err := strconv.ParseInt(number, 10, 64)
			if err != nil {
				return p.Errf("invalid number %q of per_address: use a whole number from 1 to 10^15", number)
			}
			c.PerAddress = append(c.PerAddress, policy.AddressLimit{Limit: limit, Period: period})
			return p.Unique("anonymous "+period, "per_address", period)
		}),
	)
}

func (p *parser) login(pattern string) error {
	if err := p.Unique("login "+pattern, "login", pattern); err != nil {
		return err
	}
	strict, t := false, &p.app.LoginThrottle
	delete(p.Lines, "strict") // which each login can have
	err := p.Block("",
		block.Once("per_client <attempts> <window>", &t.PerClient, (*time.Duration)(&t.Window)),
		block.Once("per_account <free failures> <first wait> <longest wait>", &t.FreeFailures, (*time.Duration)(&t.FirstWait), (*time.Duration)(&t.MaxWait)),
		block.Once("strict [on|off]", &strict),
	)
	if strict {
		pattern += " " + policy.Strict
	}
	p.app.Logins = append(p.app.Logins, pattern)
	return err
}

func (p *parser) plan(name string) error {
	plan := policy.PlanConfig{Name: name, Limits: map[string]*policy.Limit{}}
	if err := p.Unique("plan "+name, "plan", name); err != nil {
		return err
	}
	err := p.EachLine(func() error {
		if p.Val() == "token_prefix" {
			return p.Option("plan "+name+" ", block.Once(tokenPrefixSyntax, &plan.TokenPrefix))
		}
		return p.limit(&plan)
	})
	p.app.Plans = append(p.app.Plans, plan)
	return err
}

// limit parses a line of a plan.
func (p *parser) limit(plan *policy.PlanConfig) error {
	name, args := p.Val(), p.RemainingArgs()
	if len(args) < 1 || len(args) > 2 {
		return p.WrongArguments("<endpoint>|* <number>|unlimited [<period>]")
	}
	number, err := policy.ParseLimit(args[0])
	if err != nil {
		return p.WrapErr(err)
	}
	l := policy.LimitConfig{Endpoint: name, Period: store.Day.String(), Limit: number}
	if name == "*" {
		l.Endpoint = store.All
	}
	if len(args) == 2 {
		l.Period = args[1]
	}
	subject := "plan " + plan.Name + " " + l.Endpoint
	if _, named := p.Lines[subject]; !named || name == store.All {
		p.Lines[subject] = block.At(p.Dispenser)
	}
	if name == store.All { // a mistake, as in JSON, after one of the endpoint
		plan.Limits[name] = &l.Limit
		return nil
	}
	if err := p.Unique(subject+" "+l.Period, "limit", name+" "+l.Period); err != nil {
		return err
	}
	addLimit(plan, l)
	return nil
}

// addLimit adds a daily limit of an endpoint to Limits. Limits has no order
// and comes before MoreLimits, so a daily limit after another limit of the
// same calls goes to MoreLimits, as all others do.
func addLimit(plan *policy.PlanConfig, l policy.LimitConfig) {
	after := slices.ContainsFunc(plan.MoreLimits, func(other policy.LimitConfig) bool {
		return other.Endpoint == l.Endpoint || other.Endpoint == store.All
	})
	_, listed := plan.Limits[l.Endpoint]
	switch {
	case l.Endpoint != store.All && l.Period == store.Day.String() && !after:
		plan.Limits[l.Endpoint] = &l.Limit
		return
	case l.Endpoint != store.All && !listed:
		plan.Limits[l.Endpoint] = nil
	}
	plan.MoreLimits = append(plan.MoreLimits, l)
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
	where, known := p.Lines[policy.Subject(err)]
	if !known {
		where = p.Lines[""]
	}
	if other, known := p.Lines[policy.Other(err)]; known && policy.Other(err) != "" {
		where += " and " + other
	}
	return fmt.Errorf("%w, at %s", err, where)
}
