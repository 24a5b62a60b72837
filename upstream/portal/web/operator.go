package web

import (
	"cmp"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/internal/apierror"
	"github.com/caddy-tollgate/tollgate/upstream/portal/account"
)

const (
	operatorSection = "operator"
	operatorPath    = "/" + operatorSection
	accountsPath    = operatorPath + "/accounts"

	// operatorFor is how long after a sign-in a session opens the operator's
	// pages.
	operatorFor = time.Hour
)

// routeOperator adds the pages of operators: see operatorsOnly.
func (s *site) routeOperator(mux *http.ServeMux) {
	const one = accountsPath + "/{account}"
	mux.HandleFunc("GET "+operatorPath, s.signedInAlone(s.today))
	mux.HandleFunc("GET "+accountsPath, s.signedIn(s.findAccounts))
	mux.HandleFunc("GET "+operatorPath+"/audit", s.signedIn(s.audit))
	form(mux, operatorPath+"/try", s.signedIn(s.try), s.signedIn(s.try))
	mux.HandleFunc("GET "+one, s.signedIn(s.operatorAccount))
	form(mux, one+"/{action}", s.signedIn(s.action), s.signedIn(s.action))
}

// ofOperators tells whether an address is one of the operator's pages.
func ofOperators(path string) bool {
	return path == operatorPath || strings.HasPrefix(path, operatorPath+"/")
}

// operatorsOnly guards all addresses below /operator. For a person who is no
// operator, they are as unknown as any other address, also for a form, which is
// not read. An operator has to sign in anew after an hour. Each request asks the
// database, so a person who is no longer an operator is refused at once. Without
// an answer of the database, the request is refused.
func (s *site) operatorsOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !ofOperators(r.URL.Path) {
			next.ServeHTTP(w, r)
			return
		}
		v, err := s.begin(r)
		switch {
		case v == nil: // err says why
		case !v.who.Operator:
			err = errNotFound
		case s.Now().Sub(v.session.CreatedAt) < operatorFor:
			next.ServeHTTP(w, r)
			return
		default:
			if err = s.sessions.Close(w, r); err == nil {
				redirect(w, loginPath, url.Values{"next": {localPath(r.URL.RequestURI())}, "done": {"operator"}})
			}
		}
		if errors.Is(err, errSignedOut) {
			err = s.askToSignIn(w, r)
		}
		if err != nil {
			s.fail(w, r, v, err)
		}
	})
}

// subject is the account that an operator looks at.
type subject struct {
	api.Account
	// Email is empty for an account without a password here.
	Email account.Email
	// visit is for reading what the account's own person can read.
	*visit
}

// Name is the label, or the id of an account without one.
func (of *subject) Name() string { return cmp.Or(of.Label, of.Account.Account) }

// Path is the address of the account's page.
func (of *subject) Path() string { return accountsPath + "/" + of.Account.Account }

// Time formats a time.
func (v *visit) Time(t time.Time) moment { return v.clock.moment(t) }

// subject returns the account in the path.
func (s *site) subject(r *http.Request, v *visit) (*subject, error) {
	ctx, cancel := account.OfCall(r.Context())
	defer cancel()
	known, err := s.Gate.Account(ctx, r.PathValue("account"))
	if err != nil {
		return nil, err
	}
	of := v.subject(known)
	who, err := s.Accounts.Identify(ctx, known.Account)
	if of.Email = who.Email; errors.Is(err, account.ErrNotFound) {
		err = nil
	}
	return of, err
}

func (v *visit) subject(known api.Account) *subject {
	of := &subject{Account: known, visit: new(*v)}
	of.who.ID, of.plan = known.Account, planOf(v.plans, known.Plan)
	return of
}

// fields are the values of a form, and the options of those with options.
type fields struct {
	url.Values
	options map[string][]choice
}

// selection is a field with options.
type selection struct {
	Name, Value string
	Choices     []choice
}

// Select is the field with a name.
func (f fields) Select(name string) selection { return selection{name, f.Get(name), f.options[name]} }

func (v *visit) fields(values url.Values) fields {
	f := fields{values, map[string][]choice{
		"period": periods, "state": {{"", "all"}, {"active", "active"}, {"disabled", "disabled"}},
		"method": {{"GET", "GET"}, {"POST", "POST"}, {"PUT", "PUT"}, {"PATCH", "PATCH"}, {"DELETE", "DELETE"}, {"HEAD", "HEAD"}},
	}}
	for _, p := range v.plans.Plans {
		f.options["plan"] = append(f.options["plan"], choice{p.Name, p.Name})
	}
	for _, e := range v.plans.Endpoints {
		f.options["endpoint"] = append(f.options["endpoint"], choice{e.Name, e.Name})
	}
	return f
}

// mistake is a value that a person can mend.
func mistake(advice string) error {
	return problem{Status: http.StatusUnprocessableEntity, Advice: advice}
}

// gateAdvice says in the words of the pages why the gate refused a form, by the
// code of the refusal.
var gateAdvice = map[string]string{
	"invalid_limit":    "Calls: a limit of a second, a minute or an hour is at least 1.",
	"too_many_limits":  "The account has as many overrides as it can have. Clear one first.",
	"invalid_day":      "Day of the calls: choose today or one of the 399 days before.",
	"credit_exists":    "This form was sent before with other values. Open it again.",
	"invalid_reason":   "Reason: at most 200 characters, all of them visible.",
	"account_disabled": "The account is disabled. Enable it first.",
	"no_site":          "Tell the person who runs the server: the gate needs its option site, the address of these pages.",
}

// adviceOf says why a form was not accepted. It is empty for other errors: then an
// error page says that nothing was changed.
func adviceOf(err error) string {
	if shown, ok := errors.AsType[problem](err); ok && shown.Status == http.StatusUnprocessableEntity {
		return shown.Advice
	}
	refused, ok := errors.AsType[*apierror.Error](err)
	switch {
	case !ok:
		return ""
	case refused.Code == "nothing_to_credit": // it has the numbers, in a sentence
		return refused.Message
	}
	return gateAdvice[refused.Code]
}
