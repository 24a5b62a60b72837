package policy

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/calendar"
	"github.com/caddy-tollgate/tollgate/internal/login"
	"github.com/caddy-tollgate/tollgate/internal/route"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/token"
)

// UsageEndpoint is the name of the endpoint that the gate answers itself.
const UsageEndpoint = "usage"

// FreePlan is the plan of an account that the gate does not know yet.
const FreePlan = "free"

// names is the syntax of the names of plans, endpoints and abilities: they
// fit into a scope (RFC 6749, section 3.3), a quoted string of a header and
// a URL.
var names = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.-]{0,63}$`)

// ValidName reports whether a plan, an endpoint or an ability can have a name.
func ValidName(name string) bool { return names.MatchString(name) }

// Policy is a compiled configuration. It is immutable.
type Policy struct {
	// Calendar has the days of the configured zone.
	Calendar *calendar.Calendar
	// Guard tells which paths are closed.
	Guard *route.Guard
	// Routes has the logins and endpoints.
	Routes route.Table[Route]
	// Endpoints lists all endpoints in the order of the configuration. The
	// gate's own usage endpoint is the last one.
	Endpoints []*Endpoint
	// Plans lists all plans in the order of the configuration.
	Plans []*Plan
	// Names are the older names of the endpoints and their abilities.
	Names store.Names
	// LoginLimits are the limits of login attempts.
	LoginLimits login.Limits
	// LoginTTL is how long a login token lives.
	LoginTTL time.Duration
	// Refund decides which failed calls are given back, unless the endpoint does.
	Refund Refund
	// Errors is how refusals are written, unless the endpoint decides it.
	Errors Errors
	// Unit is what the cost of all endpoints counts, "" for calls and for
	// different units.
	Unit string
	// Mode is what happens to calls that break a rule.
	Mode Mode
	// Warn has the percentages of limits that make a warning, ascending.
	Warn []int
	// CORS says which pages of other origins may call the API. It is nil if
	// the gate leaves that to the service.
	CORS *CORS
	// TokenHeader is the second header for tokens in canonical form, or "".
	TokenHeader string
	// TokenBasic accepts tokens as passwords of Basic authentication.
	TokenBasic bool
	// ForeignKeys accepts tokens that the gate did not make.
	ForeignKeys bool
	// Words are the words of tokens of the app and of the plans, without the
	// default.
	Words []token.Word
	// Identity is nil if all calls need a token.
	Identity *IdentityConfig
	// Anonymous is nil if all calls need a credential.
	Anonymous *Anonymous
	// Docs is where the documentation of the API is, or "".
	Docs string

	logins     route.Table[bool]
	plans      map[string]*Plan
	limitNames map[string]string      // the endpoint, by the names of its limits
	subjects   map[string]string      // of Error, by the patterns of Routes
	operations map[string]*Operations // of routes with JSON-RPC, by their patterns
}

// Route is the target of a method and path: a login or an endpoint. The
// zero Route is neither.
type Route struct {
	Login    bool
	Strict   bool // of a login: see Config.Logins
	Endpoint *Endpoint
	// Operations are the endpoints of a route with JSON-RPC. Then Endpoint is nil
	// in Policy.Routes.
	Operations *Operations
}

// New checks a configuration and compiles it. It returns all mistakes
// joined, each of them an *Error.
func New(c Config) (*Policy, error) {
	p := &Policy{
		LoginTTL: time.Duration(cmp.Or(c.LoginTTL, Duration(24*time.Hour))),
		Refund:   cmp.Or(c.Refund, RefundUnreachable),
		Errors:   cmp.Or(c.Errors, ErrorsJSON),
		Mode:     cmp.Or(c.Mode, Enforce),
		Warn:     slices.Sorted(slices.Values(c.Warn)), TokenBasic: c.TokenBasic, ForeignKeys: c.ForeignKeys, Docs: c.Docs,
		plans: make(map[string]*Plan), limitNames: make(map[string]string), subjects: make(map[string]string), operations: make(map[string]*Operations),
	}
	p.reserveAddressNames(c.Anonymous)
	var err error
	p.CORS, err = newCORS(c.CORS)
	err = errors.Join(
		p.setCalendar(c), p.setGuard(c), p.setLimits(c), p.addLogins(c), p.reserveLimitNames(store.All), p.addEndpoints(c), p.setNames(c), err, p.setTokenHeader(c.TokenHeader), checkDocs(c.Docs),
	)
	return p, errors.Join(err, p.addPlans(c), p.setWords(c), p.setIdentity(c.Identity), p.setAnonymous(c.Anonymous))
}

// checkDocs refuses an address that cannot be in the header Link.
func checkDocs(address string) error {
	u, err := url.Parse(address)
	isPath := strings.HasPrefix(address, "/") && !strings.HasPrefix(address, "//")
	if address == "" || err == nil && !strings.ContainsFunc(address, func(c rune) bool { return c <= ' ' || c > '~' || strings.ContainsRune(`<>"`, c) }) && (isPath || u.Host != "" && (u.Scheme == "https" || u.Scheme == "http")) {
		return nil
	}
	return mistake("docs", "%q is neither a URL such as https://example.com/docs nor a path such as /docs", address)
}

func (p *Policy) setCalendar(c Config) (err error) {
	if p.Calendar, err = calendar.New(cmp.Or(c.Timezone, "UTC")); err != nil {
		return &Error{Subject: "timezone", Err: err}
	}
	return nil
}

func (p *Policy) setGuard(c Config) error {
	var errs []error
	for i, prefix := range c.Guard {
		if slices.Contains(c.Guard[:i], prefix) {
			errs = append(errs, mistake("guard "+prefix, "duplicate prefix"))
		}
		if _, err := route.NewGuard(prefix); err != nil {
			errs = append(errs, &Error{Subject: "guard " + prefix, Err: err})
		}
	}
	p.Guard, _ = route.NewGuard(c.Guard...) // nil after an error of one of them
	return errors.Join(errs...)
}

func (p *Policy) setLimits(c Config) error {
	t := c.LoginThrottle
	client := login.Limits{PerClient: t.PerClient, Window: time.Duration(t.Window)}
	account := login.Limits{Free: t.FreeFailures, FirstWait: time.Duration(t.FirstWait), MaxWait: time.Duration(t.MaxWait)}
	p.LoginLimits = account
	p.LoginLimits.PerClient, p.LoginLimits.Window = client.PerClient, client.Window
	var errs []error
	// Checked separately: each mistake belongs to its own option.
	if err := client.Validate(); err != nil {
		errs = append(errs, &Error{Subject: "per_client", Err: err})
	}
	if err := account.Validate(); err != nil {
		errs = append(errs, &Error{Subject: "per_account", Err: err})
	}
	if p.LoginTTL < time.Second {
		errs = append(errs, mistake("login_ttl", "%s is shorter than a second", p.LoginTTL))
	}
	if err := p.Refund.check(); err != nil {
		errs = append(errs, &Error{Subject: "refund", Err: err})
	}
	if err := p.Errors.check(); err != nil {
		errs = append(errs, &Error{Subject: "errors", Err: err})
	}
	if p.Mode != Enforce && p.Mode != Shadow {
		errs = append(errs, mistake("mode", "%q is none of enforce, shadow", p.Mode))
	}
	for i, percent := range p.Warn {
		if percent < 1 || percent > 100 {
			errs = append(errs, mistake("warn", "%d is not a percentage from 1 to 100", percent))
		}
		if i > 0 && p.Warn[i-1] == percent {
			errs = append(errs, mistake("warn", "duplicate percentage %d", percent))
		}
	}
	return errors.Join(errs...)
}

// Strict is the last word of a login in Config.Logins whose successful attempts
// count like failed ones.
const Strict = "strict"

func (p *Policy) addLogins(c Config) error {
	var errs []error
	for _, pattern := range c.Logins {
		pattern, strict := strings.CutSuffix(pattern, " "+Strict)
		method, path, _ := strings.Cut(pattern, " ")
		if _, word, found := strings.Cut(path, " "); found {
			errs = append(errs, mistake("login "+pattern, "unknown word %q: use %s", word, Strict))
			continue
		}
		if method == route.AnyMethod {
			errs = append(errs, mistake("login "+pattern, "a login has one method: write that of the request with the password, such as POST"))
			continue
		}
		err := p.addRoute("login "+pattern, Pattern{method, path}, Route{Login: true, Strict: strict})
		if err == nil {
			err = p.logins.Add(method, path, true)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// addRoute adds a route of a subject. It refuses an endpoint outside the guard:
// paths that a lenient server treats as the same would be open.
func (p *Policy) addRoute(subject string, pattern Pattern, r Route) error {
	err := p.Routes.Add(pattern.Method, pattern.Path, r)
	if conflict, ok := errors.AsType[*route.Conflict](err); ok {
		return &Error{Subject: subject, Err: err, Other: p.subjects[conflict.Earlier]}
	}
	if err == nil && !r.Login && p.Guard != nil && !p.Guard.Covers(pattern.Path) {
		err = fmt.Errorf("%s is below no guard: guards are %s", pattern.Path, p.Guard)
	}
	if err != nil {
		return &Error{Subject: subject, Err: err}
	}
	p.subjects[pattern.String()] = subject
	return nil
}

func (p *Policy) addPlans(c Config) error {
	var declared []string
	for _, e := range endpoints(c) {
		if !slices.Contains(declared, e.Name) {
			declared = append(declared, e.Name)
		}
	}
	var errs []error
	for _, pc := range c.Plans {
		subject := "plan " + pc.Name
		switch {
		case !ValidName(pc.Name):
			errs = append(errs, mistake(subject, "%q is not a name: a letter, then up to 63 letters, digits, dots, dashes or underscores", pc.Name))
			continue
		case p.plans[pc.Name] != nil:
			errs = append(errs, mistake(subject, "duplicate plan"))
			continue
		}
		plan, err := newPlan(pc, p.Endpoints, declared)
		if err != nil {
			errs = append(errs, err)
		}
		plan.Index, plan.older = len(p.Plans), p.Names.Abilities
		p.Plans = append(p.Plans, plan)
		p.plans[plan.Name] = plan
	}
	return errors.Join(errs...)
}

// IsLoginAlias reports whether a lenient server would serve a request
// without a route as a login: a server that ignores case, also of the
// method, parameters of segments or a slash at the end. Below the guard no
// such path is open. Outside it, the path would bypass the limits of login
// attempts.
func (p *Policy) IsLoginAlias(method, path string) bool {
	return p.logins.Alias(strings.ToUpper(method), path)
}

// Plan returns the plan of that name. It is nil, without access, for a plan
// that the configuration no longer has: accounts can still be on it.
func (p *Policy) Plan(name string) *Plan { return p.plans[name] }

// PlanNames lists the names of all plans for messages.
func (p *Policy) PlanNames() string {
	var names []string
	for _, plan := range p.Plans {
		names = append(names, plan.Name)
	}
	return cmp.Or(strings.Join(names, ", "), "none")
}

// Endpoint returns the endpoint of that name, or nil.
func (p *Policy) Endpoint(name string) *Endpoint {
	for _, e := range p.Endpoints {
		if e.Name == name {
			return e
		}
	}
	return nil
}

// Except returns the name of the endpoint that limits of all endpoints do not
// cover: the gate's own one, or "" without it.
func (p *Policy) Except() string {
	if last := len(p.Endpoints) - 1; last >= 0 && p.Endpoints[last].Usage {
		return p.Endpoints[last].Name
	}
	return ""
}
