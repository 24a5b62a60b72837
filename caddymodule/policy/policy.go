package policy

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/calendar"
	throttle "github.com/caddy-tollgate/tollgate/caddymodule/login"
	"github.com/caddy-tollgate/tollgate/caddymodule/route"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
)

// UsageEndpoint is the name of the endpoint that the gate answers itself.
const UsageEndpoint = "usage"

// FreePlan is the plan of an account that the gate does not know yet.
const FreePlan = "free"

// names are plans, endpoints and abilities: words that fit into a scope
// (RFC 6749, section 3.3), a quoted string of a header and a URL alike.
var names = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.-]{0,63}$`)

// Policy is a compiled configuration. It is immutable.
type Policy struct {
	// Calendar is the zone's days.
	Calendar *calendar.Calendar
	// Guard tells which paths are closed.
	Guard *route.Guard
	// Endpoints lists all endpoints in the order of the configuration,
	// the gate's own usage endpoint where it stands.
	Endpoints []*Endpoint
	// Plans lists all plans in the order of the configuration.
	Plans []*Plan
	// LoginLimits are the throttle's limits.
	LoginLimits throttle.Limits
	// LoginTTL is how long a login token lives.
	LoginTTL time.Duration
	// Refund decides which failed calls are given back.
	Refund Refund

	routes route.Table[Route]
	logins []loginAliases
	plans  map[string]*Plan
}

// Route is what a method and path lead to: a login, or an endpoint.
type Route struct {
	Login    bool
	Endpoint *Endpoint
}

// Endpoint is one metered endpoint.
type Endpoint struct {
	Name    string
	Method  string
	Path    string
	Ability string
	// Index is the endpoint's place in Policy.Endpoints.
	Index int
	// Usage marks the endpoint that the gate answers itself.
	Usage bool
	// Upgrade lets clients switch to another protocol.
	Upgrade bool
}

// New checks a configuration and compiles it. Its errors are *Error, one
// for each mistake, joined.
func New(c Config) (*Policy, error) {
	p := &Policy{
		LoginTTL: time.Duration(or(c.LoginTTL, Duration(24*time.Hour))),
		Refund:   or(c.Refund, RefundUnreachable),
		plans:    make(map[string]*Plan),
	}
	err := errors.Join(
		p.setCalendar(c), p.setGuard(c), p.setLimits(c), p.addLogins(c), p.addEndpoints(c),
	)
	return p, errors.Join(err, p.addPlans(c))
}

func or[T comparable](value, fallback T) T {
	var zero T
	if value == zero {
		return fallback
	}
	return value
}

func (p *Policy) setCalendar(c Config) (err error) {
	if p.Calendar, err = calendar.New(or(c.Timezone, "UTC")); err != nil {
		return &Error{"timezone", err}
	}
	return nil
}

func (p *Policy) setGuard(c Config) error {
	prefixes := c.Guard
	if len(prefixes) == 0 {
		prefixes = []string{"/"}
	}
	var errs []error
	for i, prefix := range prefixes {
		if slices.Contains(prefixes[:i], prefix) {
			errs = append(errs, mistake("guard "+prefix, "the prefix stands there twice"))
		}
		if _, err := route.NewGuard(prefix); err != nil {
			errs = append(errs, &Error{"guard " + prefix, err})
		}
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	var err error
	p.Guard, err = route.NewGuard(prefixes...)
	return err
}

func (p *Policy) setLimits(c Config) error {
	t := c.LoginThrottle
	client := throttle.Limits{PerClient: t.PerClient, Window: time.Duration(t.Window)}
	account := throttle.Limits{Free: t.FreeFailures, FirstWait: time.Duration(t.FirstWait), MaxWait: time.Duration(t.MaxWait)}
	p.LoginLimits = account
	p.LoginLimits.PerClient, p.LoginLimits.Window = client.PerClient, client.Window
	var errs []error
	// Apart, so that each mistake is blamed on its own option.
	if err := client.Validate(); err != nil {
		errs = append(errs, &Error{"per_client", err})
	}
	if err := account.Validate(); err != nil {
		errs = append(errs, &Error{"per_account", err})
	}
	if p.LoginTTL < time.Second {
		errs = append(errs, mistake("login_ttl", "%s is shorter than a second", p.LoginTTL))
	}
	switch p.Refund {
	case RefundUnreachable, RefundServerErrors, RefundNever:
	default:
		errs = append(errs, mistake("refund", "%q is none of never, unreachable, server_errors", p.Refund))
	}
	return errors.Join(errs...)
}

func (p *Policy) addLogins(c Config) error {
	var errs []error
	for _, pattern := range c.Logins {
		method, path, _ := strings.Cut(pattern, " ")
		err := p.addRoute(method, path, Route{Login: true})
		if err == nil {
			err = p.addDisguises(method, path)
		}
		if err != nil {
			errs = append(errs, &Error{"login " + pattern, err})
		}
	}
	return errors.Join(errs...)
}

// loginAliases is what a server that is lenient with paths takes for one login.
// Each has a table of its own: two may be the same to such a server.
type loginAliases struct {
	method  string
	lenient *route.Table[bool]
}

// addDisguises notes what a login may be taken for. A slash at the end of
// a pattern, and a wildcard for the rest of the path, stand for all paths
// below, and a lenient server takes the path in front of them for another.
func (p *Policy) addDisguises(method, path string) error {
	path, ended := strings.CutSuffix(path, "/{$}")
	segments := strings.Split(path, "/")[1:] // nothing is in front of the first slash
	below := false
	if last := len(segments) - 1; !ended && (segments[last] == "" || strings.HasSuffix(segments[last], "...}")) {
		segments, below = segments[:last], true
	}
	var plain strings.Builder
	for i, segment := range segments {
		plain.WriteByte('/')
		if strings.HasPrefix(segment, "{") && strings.HasSuffix(segment, "}") {
			fmt.Fprintf(&plain, "{w%d}", i) // two names may differ only in case
			continue
		}
		plain.WriteString(url.PathEscape(route.Plain(segment)))
	}
	l := loginAliases{method, &route.Table[bool]{}}
	if plain.Len() > 0 {
		if err := l.lenient.Add(method, plain.String(), true); err != nil {
			return err
		}
	}
	if below {
		if err := l.lenient.Add(method, plain.String()+"/", true); err != nil {
			return err
		}
	}
	p.logins = append(p.logins, l)
	return nil
}

// endpoints lists those of a configuration, the gate's own at the end.
func endpoints(c Config) []EndpointConfig {
	if c.Usage == "" {
		return c.Endpoints
	}
	method, path, _ := strings.Cut(c.Usage, " ")
	return append(slices.Clone(c.Endpoints), EndpointConfig{Name: UsageEndpoint, Method: method, Path: path})
}

func (p *Policy) addEndpoints(c Config) error {
	all := endpoints(c)
	var errs []error
	for i, e := range all {
		usage := c.Usage != "" && i == len(all)-1
		subject := "endpoint " + e.Name
		if usage {
			subject = "usage"
		}
		if err := p.addEndpoint(e, usage); err != nil {
			errs = append(errs, &Error{subject, err})
		}
	}
	return errors.Join(errs...)
}

func (p *Policy) addEndpoint(e EndpointConfig, usage bool) error {
	ability := or(e.Ability, e.Name)
	switch {
	case !names.MatchString(e.Name):
		return fmt.Errorf("%q is not a name: a letter, then up to 63 letters, digits, dots, dashes or underscores", e.Name)
	case !names.MatchString(ability):
		return fmt.Errorf("ability %q is not a name", ability)
	case e.Name == UsageEndpoint && !usage:
		return fmt.Errorf("the name %q is the gate's own: use the option usage", e.Name)
	case p.Endpoint(e.Name) != nil:
		return errors.New("the endpoint stands there twice")
	case usage && e.Method != http.MethodGet:
		return fmt.Errorf("usage is answered to GET, not to %q", e.Method)
	}
	endpoint := &Endpoint{Name: e.Name, Method: e.Method, Path: e.Path, Ability: ability, Index: len(p.Endpoints), Usage: usage, Upgrade: e.Upgrade}
	if err := p.addRoute(e.Method, e.Path, Route{Endpoint: endpoint}); err != nil {
		return err
	}
	p.Endpoints = append(p.Endpoints, endpoint)
	return nil
}

// addRoute refuses what lies outside the guard as well: such a route
// would look closed to its author and be open beside itself.
func (p *Policy) addRoute(method, path string, r Route) error {
	if err := p.routes.Add(method, path, r); err != nil {
		return err
	}
	if r.Endpoint != nil && p.Guard != nil && !p.Guard.Covers(path) {
		return fmt.Errorf("%s is not below a guard", path)
	}
	return nil
}

func (p *Policy) addPlans(c Config) error {
	var declared []string
	for _, e := range endpoints(c) {
		declared = append(declared, e.Name)
	}
	var errs []error
	for _, pc := range c.Plans {
		subject := "plan " + pc.Name
		switch {
		case !names.MatchString(pc.Name):
			errs = append(errs, mistake(subject, "%q is not a name: a letter, then up to 63 letters, digits, dots, dashes or underscores", pc.Name))
			continue
		case p.plans[pc.Name] != nil:
			errs = append(errs, mistake(subject, "the plan stands there twice"))
			continue
		}
		plan, err := newPlan(pc, p.Endpoints, declared)
		if err != nil {
			errs = append(errs, err)
		}
		plan.Index = len(p.Plans)
		p.Plans = append(p.Plans, plan)
		p.plans[plan.Name] = plan
	}
	return errors.Join(errs...)
}

// MatchWritten finds the route of a request whose target needs no second
// look; see [route.Table.MatchWritten].
func (p *Policy) MatchWritten(method, requestURI string, u *url.URL) (Route, bool) {
	return p.routes.MatchWritten(method, requestURI, u)
}

// Match finds the route of a request.
func (p *Policy) Match(method, path string) (Route, bool) { return p.routes.Match(method, path) }

// Allow returns the methods that a path has routes for, as the value of
// an Allow header, and "" if it has none.
func (p *Policy) Allow(path string) string { return p.routes.Allow(path) }

// Disguises tells whether a request without a route is a login to a server
// that is lenient: one that ignores case, of the method too, parameters of
// segments or a slash at the end. Below a guard there is no such path;
// beside it, it would be a way around the throttle.
func (p *Policy) Disguises(method, path string) bool {
	method = strings.ToUpper(method)
	plain := ""
	for _, l := range p.logins {
		if l.method != method && (l.method != http.MethodGet || method != http.MethodHead) {
			continue
		}
		if plain == "" {
			plain = route.Plain(path)
		}
		if _, found := l.lenient.Match(method, plain); found {
			return true
		}
	}
	return false
}

// Plan returns the plan of that name. An account can be on a plan that
// the configuration no longer has: that is nil, and gives no access.
func (p *Policy) Plan(name string) *Plan {
	if len(p.Plans) > fewPlans {
		return p.plans[name]
	}
	for _, plan := range p.Plans {
		if plan.Name == name {
			return plan
		}
	}
	return nil
}

// fewPlans are looked for one by one, which is faster than to hash.
const fewPlans = 8

// Endpoint returns the endpoint of that name, or nil.
func (p *Policy) Endpoint(name string) *Endpoint {
	for _, e := range p.Endpoints {
		if e.Name == name {
			return e
		}
	}
	return nil
}

// checkLimit is the bound of a limit that came as JSON.
func checkLimit(l Limit) error {
	if int64(l) != store.Unlimited && (l < 0 || l > MaxLimit) {
		return fmt.Errorf("limit %d is not from 0 to 10^15", l)
	}
	return nil
}
