package caddymodule

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"

	"github.com/caddy-tollgate/tollgate/internal/block"
	"github.com/caddy-tollgate/tollgate/internal/feature/event"
	"github.com/caddy-tollgate/tollgate/internal/feature/feed"
	"github.com/caddy-tollgate/tollgate/internal/policy"
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
//		feed <url> {
//			format cloudevents|lago|metronome
//			token <text>
//			every <duration>
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
//		identity <placeholder> [plan <plan>|<placeholder> of <plans...>] [prefix <text>]
//		anonymous <plan> {
//			per_address <number> second|minute|hour|day|week|month
//		}
//		introspection_secret <secret>
//		take_secret <secret>
//		endpoint <name> <methods...>|* <paths...> {
//			route <methods...>|* <paths...>
//			jsonrpc <method> [<tool>]
//			ability <name>
//			rename <old names...>
//			upgrade [on|off]
//			keep <headers...>
//			cost <number>|json <member> [<size>]
//			unit <word>
//			refund never|unreachable|server_errors|errors
//			errors json|pass|openai
//		}
//		plan <name> {
//			<endpoint>|* <number>|unlimited [second|minute|hour|day|week|month|total] [soft <ceiling>] [calls]
//			<endpoint>|* concurrent <number>
//			token_prefix <word>
//		}
//		account <id> <plan> {
//			label <text>
//			disabled [on|off]
//			billing_day <day>
//			key <name> sha256:<hash> [<abilities...>]
//		}
//		docs <url>|<path>
//		site <address>
//		refund never|unreachable|server_errors|errors
//		errors json|pass|openai
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
		block.Once("take_secret <secret>", &app.TakeSecret),
		block.Once("mode enforce|shadow", (*string)(&app.Mode)),
		block.Once(refundSyntax, (*string)(&app.Refund)),
		block.Once(errorsSyntax, (*string)(&app.Errors)),
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
		block.Once("feed <url>", &name, func() error { return p.feed(name) }),
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

func (p *parser) feed(url string) error {
	f := &feed.Feed{URL: url}
	p.app.Feed = f
	return p.Block("feed ",
		block.Once("format cloudevents|lago|metronome", &f.Format),
		block.Once("token <text>", &f.Token),
		block.Once("every <duration>", (*time.Duration)(&f.Every)),
	)
}

func (p *parser) cors(origins []string) error {
	c := &policy.CORSConfig{Origins: origins}
	p.app.CORS = c
	return p.Block("cors ", block.Once("max_age <duration>", (*time.Duration)(&c.MaxAge)))
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

const refundSyntax = "refund never|unreachable|server_errors|errors"

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
