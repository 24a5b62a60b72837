package web

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/internal/apierror"
	"github.com/caddy-tollgate/tollgate/upstream/portal/account"
)

// listRows is the number of rows on a page of a list.
const listRows = 50

// listView is a page of a list that a query selects.
type listView struct {
	fields
	// Next is the address of the next page, or empty. With Partial, this one is not
	// full: the gate examines a part of the accounts at a time.
	Next     string
	Partial  bool
	Accounts []*subject
	Entries  []entryRow
	Problem  string
}

// follow sets the address of the next page.
func (l *listView) follow(path string, after *string) {
	if after != nil {
		query := maps.Clone(l.Values)
		query.Set("after", *after)
		l.Next = path + "?" + query.Encode()
	}
}

// findAccounts lists the accounts that a query selects.
func (s *site) findAccounts(w http.ResponseWriter, r *http.Request, v *visit) error {
	view := &listView{fields: v.fields(r.URL.Query())}
	view.options["plan"] = slices.Insert(view.options["plan"], 0, choice{"", "all"})
	filter := api.AccountQuery{Plan: view.Get("plan"), Search: strings.TrimSpace(view.Get("search")), After: view.Get("after"), Limit: listRows}
	if wanted := view.Get("state"); wanted != "" {
		filter.Disabled = strconv.FormatBool(wanted == "disabled")
	}
	ctx, cancel := account.OfCall(r.Context())
	defer cancel()
	page, err := s.Gate.Accounts(ctx, filter)
	if err != nil {
		return err
	}
	for _, known := range page.Accounts {
		view.Accounts = append(view.Accounts, v.subject(known))
	}
	view.Partial = page.Next != nil && len(page.Accounts) < listRows
	view.follow(accountsPath, page.Next)
	return s.views.show(w, http.StatusOK, "operatoraccounts", v.page("Accounts", operatorSection, view))
}

// audit lists the entries of the audit log that a query selects, newest first.
func (s *site) audit(w http.ResponseWriter, r *http.Request, v *visit) error {
	view := &listView{fields: v.fields(r.URL.Query())}
	ctx, cancel := account.OfCall(r.Context())
	defer cancel()
	filter := api.AuditQuery{
		Account: s.idOf(ctx, view.Get("account")), Actor: s.idOf(ctx, view.Get("actor")), Order: "desc",
		Since: v.midnight(view.Get("from"), 0), Until: v.midnight(view.Get("to"), 1), After: view.Get("after"), Limit: listRows,
	}
	page, err := s.Gate.Audit(ctx, filter)
	status := http.StatusOK
	if refused, _ := errors.AsType[*apierror.Error](err); errors.Is(err, api.ErrNotFound) {
		status, view.Problem = http.StatusNotFound, refused.Message
	} else if err != nil {
		return err
	}
	view.Entries = v.entryRows(page.Audit)
	view.follow(operatorPath+"/audit", page.Next)
	return s.views.show(w, status, "operatoraudit", v.page("Audit", operatorSection, view))
}

// midnight is when a day begins, or one some days later. The gate refuses what is
// no date.
func (v *visit) midnight(text string, later int) string {
	if day, err := time.ParseInLocation(time.DateOnly, text, v.clock.zone); err == nil {
		return day.AddDate(0, 0, later).Format(time.RFC3339)
	}
	return text
}

// entryRow is an entry of the audit log.
type entryRow struct {
	api.AuditEntry
	At      moment
	Changes []api.EntryChange
}

// Visit tells whether any person with a portal link can be the actor.
func (e entryRow) Visit() bool { return e.Reason == portalReason }

func (v *visit) entryRows(entries []api.AuditEntry) (rows []entryRow) {
	for _, e := range entries {
		full := func(t time.Time) string { return v.clock.moment(t).Full }
		rows = append(rows, entryRow{e, v.clock.moment(e.At), e.Changes(full)})
	}
	return rows
}

// tryView is the page that explains what the gate would answer to a request.
// Found is nil before there is one.
type tryView struct {
	*visit
	fields
	Problem string
	Found   *api.Explanation
}

// try explains a request. It is a form, so that no log of addresses has the
// path, nor a token that a person enters by mistake.
func (s *site) try(w http.ResponseWriter, r *http.Request, v *visit) error {
	view, status := tryView{visit: v, fields: v.fields(r.PostForm)}, http.StatusOK
	if r.Method != http.MethodPost {
		view.Values = url.Values{"account": r.URL.Query()["account"]}
	} else if found, err := s.explain(r.Context(), view.fields); err == nil {
		view.Found = &found
	} else if view.Problem, status = adviceOf(err), http.StatusUnprocessableEntity; view.Problem == "" {
		return err
	}
	return s.views.show(w, status, "operatortry", v.page("Try a request", operatorSection, view))
}

var unknownToGate = mistake("Account: the gate does not know it, so it has no keys.")

// explain asks the gate.
func (s *site) explain(ctx context.Context, f fields) (found api.Explanation, err error) {
	ctx, cancel := account.OfCall(ctx)
	defer cancel()
	field := func(name string) string { return strings.TrimSpace(f.Get(name)) }
	q := api.Question{Method: field("method"), Target: field("target"), Key: field("key")}
	if _, err := url.ParseRequestURI(q.Target); err != nil || strings.Contains(q.Target, " ") {
		return found, mistake("Path: enter the path and the query of a request, such as /api/rates?base=EUR.")
	}
	if name := field("account"); name != "" {
		id := s.idOf(ctx, name)
		accounts, err := s.Gate.LookUpAccount(ctx, id)
		switch {
		case err != nil:
			return found, err
		case len(accounts) == 0 && id != name:
			return found, unknownToGate
		case len(accounts) != 1:
			return found, mistake("Account: not one account has this e-mail, label or ID. Search for it in Accounts.")
		}
		q.Account = accounts[0].Account
	}
	found, err = s.Gate.Explain(ctx, q)
	if unknown := errors.Is(err, api.ErrNotFound); unknown && q.Key == "" {
		err = unknownToGate
	} else if unknown { // api.ErrNoKey, which has the same code
		err = mistake("Key ID: no key has this ID. The page of an account has the IDs of its keys.")
	}
	return found, err
}

// idOf returns the id of the person with an e-mail to sign in, or else the name
// itself: the gate knows ids and labels.
func (s *site) idOf(ctx context.Context, name string) string {
	name = strings.TrimSpace(name)
	if email, err := account.ParseEmail(name); err == nil {
		if who, err := s.Accounts.Find(ctx, email); err == nil {
			return who.ID
		}
	}
	return name
}

// stepWords are the steps of an explanation in words.
var stepWords = map[string]string{
	"path": "Path", "headers": "Headers", "route": "Endpoint", "token": "Key", "address": "Address",
	"entitlement": "Plan and permissions", "cost": "Cost", "quota": "Limits", "proxy": "Service",
}

// Step is a step in words.
func (tryView) Step(name string) string { return cmp.Or(stepWords[name], name) }
