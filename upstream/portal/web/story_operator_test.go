package web

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
)

// operatorStories are the states of the operator's pages.
func operatorStories() map[string]story {
	full := storySheet("ada@example.com")
	full.OlderKeys = 60
	hostile := strings.Repeat("W", 60) + ` "><script>alert('x')</script> שלום עולם ` + strings.Repeat("ab ", 32)
	return map[string]story{
		"operator-today":           todayStory(storySummary(), 30),
		"operator-today-week":      todayStory(storySummary(), 7),
		"operator-today-empty":     todayStory(&api.Summary{Accounts: 1, Days: []api.SummaryDay{{Day: "2026-11-20"}}}, 30),
		"operator-today-waiting":   todayStory(nil, 30),
		"operator-today-away":      operatorStory("operatortoday", "Today", todayView{visit: storyVisit("free"), Days: 30, Checks: []api.Check{secretRefused}}),
		"operator-accounts":        operatorStory("operatoraccounts", "Accounts", storyAccounts(50, "/next")),
		"operator-accounts-part":   operatorStory("operatoraccounts", "Accounts", storyAccounts(2, "/next")),
		"operator-accounts-none":   operatorStory("operatoraccounts", "Accounts", &listView{fields: storyVisit("free").fields(url.Values{"search": {`"><b>שלום`}})}),
		"operator-account":         operatorStory("operatoraccount", "ada@example.com", full),
		"operator-account-hostile": operatorStory("operatoraccount", "hostile", storySheet(hostile)),
		"operator-account-new":     operatorStory("operatoraccount", "shop-7", newSheet(storyVisit("free").subject(api.Account{Account: "shop-7", Plan: "free", Disabled: true}), api.UsageDocument{}, nil, nil, nil, nil, nil)),
		"operator-plan":            actionStory("plan", url.Values{"plan": {"starter"}}, "", ""),
		"operator-limit":           limitStory("starter", url.Values{"endpoint": {"convert"}, "calls": {"many"}, "period": {api.Day}, "reason": {`"><b>שלום`}}),
		"operator-limit-lower":     limitStory("starter", url.Values{"endpoint": {"convert"}, "calls": {"500"}, "period": {api.Day}, "until": {"2026-12-31"}, "reason": {"fraud?"}}),
		"operator-limit-none":      limitStory("free", url.Values{}),
		"operator-clear":           actionStory("clear", nil, "", ""),
		"operator-credit":          actionStory("credit", url.Values{"day": {"2026-11-20"}}, "", ""),
		"operator-disable":         actionStory("disable", nil, "", ""),
		"operator-revoke":          actionStory("revoke", nil, "", ""),
		"operator-reset":           actionStory("reset", nil, "", "http://localhost:8080/reset/"+strings.Repeat("EXAMPLE", 6)),
		"operator-link":            actionStory("link", nil, "", "http://localhost:8080/portal?link="+strings.Repeat("EXAMPLE.", 50)),
		"operator-try":             tryStory(nil),
		"operator-try-refused":     tryStory(storyExplanation()),
		"operator-audit-unknown":   operatorStory("operatoraudit", "Audit", &listView{fields: storyVisit("free").fields(url.Values{"account": {"stranger"}}), Problem: "No account has this id or label, and the audit log has no entry with it. Search the accounts for a part of it."}),
		"operator-audit":           operatorStory("operatoraudit", "Audit", &listView{fields: storyVisit("free").fields(url.Values{"from": {"2026-11-01"}}), Entries: storyVisit("free").entryRows(storyEntries(hostile, 9)), Next: "/next"}),
	}
}

func operatorStory(name, title string, body any) story {
	return func(s *site, w http.ResponseWriter) error {
		v := storyVisit("free")
		v.who.Operator = true
		return s.views.show(w, http.StatusOK, name, v.page(title, operatorSection, body))
	}
}

func storySubject(label string) *subject {
	of := storyVisit("starter").subject(api.Account{Account: "acc_4fTg0Wq1ZrXbL7uKc9Yd", Label: label, Plan: "starter", CreatedAt: storyTime.Add(-100 * day)})
	of.Email = "ada@example.com"
	return of
}

func storySheet(text string) *sheet {
	document := keyUsage(2, 900)
	document.Days[27].Credited = map[string]int64{"convert": 120, "rates": 7}
	keys := storyKeys(6)
	keys[0].Name = text[:min(len(text), 64)]
	for i := range document.RecentCalls {
		document.RecentCalls[i].Path += "?q=" + text
	}
	overrides := []api.Override{
		{Endpoint: "convert", Period: api.Day, Limit: new(int64(5000)), ExpiresAt: new(storyTime.Add(9 * day)), Reason: text},
		{Endpoint: api.All, Period: "second", Limit: new(int64(3))},
	}
	document.Limits = []api.UsageLimit{storyUsedLimit("second", 3, 0)}
	refused := []api.Refused{{Code: "quota_exceeded", Endpoint: "convert", Calls: 1204}, {Code: "quota_exceeded", Endpoint: text[:min(len(text), 64)], Calls: 31}, {Code: "insufficient_scope", Calls: 2}}
	return newSheet(storySubject(text), document, overrides, fromGate(keys), refused, storyEntries(text, 6), nil)
}

func storyEntries(text string, n int) (entries []api.AuditEntry) {
	quoted, _ := json.Marshal(text)
	some := []api.AuditEntry{
		{Action: api.AccountSet, Before: json.RawMessage(`{"account":"acc_1","plan":"starter","disabled":false}`), After: json.RawMessage(`{"account":"acc_1","plan":"business","disabled":false}`), Reason: "upgrade, invoice 2026-118"},
		{Action: api.KeyRevoke, Target: "key_0000000000000000000007", Before: json.RawMessage(`{"name":` + string(quoted) + `,"abilities":["convert","rates"]}`), Reason: text},
		{Action: api.LimitSet, Target: "convert/day", After: json.RawMessage(`{"limit":5000,"expires_at":"2026-11-29T22:59:59Z"}`)},
		{Action: api.PortalCreate, Reason: "to look at it together"},
	}
	for i := range n {
		e := some[i%len(some)]
		e.At, e.Account, e.Actor = storyTime.Add(-time.Duration(i*i)*time.Hour), "acc_4fTg0Wq1ZrXbL7uKc9Yd", api.Actor{Kind: api.ActorPerson, ID: "acc_0perator0perator012"}
		if i%4 == 0 {
			e.Label, e.Actor.Label = text[:min(len(text), 60)], "olga@example.com"
		}
		if i == 3 {
			e.Reason = portalReason
		}
		if i == 2 {
			e.Actor = api.Actor{Kind: api.ActorAdmin, ID: text[:min(len(text), 60)]}
		}
		entries = append(entries, e)
	}
	return entries
}

func storyAccounts(n int, next string) *listView {
	view := &listView{fields: storyVisit("free").fields(url.Values{"search": {"example"}}), Next: next, Partial: n < listRows}
	for i := range n {
		a := api.Account{Account: fmt.Sprintf("acc_%020d", i), Plan: []string{"free", "starter", "business"}[i%3], Label: fmt.Sprintf("person%d@example.com", i), Disabled: i%7 == 3, CreatedAt: storyTime.Add(-time.Duration(i*i) * day)}
		if i%5 == 4 {
			a.Label, a.Account = "", fmt.Sprintf("shop-%d", i)
		}
		view.Accounts = append(view.Accounts, storyVisit("free").subject(a))
	}
	return view
}

func actionStory(name string, values url.Values, problem, link string) story {
	f := newAction(storySubject("ada@example.com"), name, values)
	f.Problem, f.Link = problem, link
	if name == "revoke" {
		f.Target = "shop backend (tgk_…0037)"
	}
	return operatorStory("operatoraction", f.Title, f)
}

// limitStory is the form of an override that is refused, or that asks.
func limitStory(plan string, values url.Values) story {
	of := storySubject("ada@example.com")
	of.Plan, of.plan = plan, planOf(of.plans, plan)
	f := newAction(of, "limit", values)
	usage := storyUsage(map[string]float64{"convert": 0.9, "rates": 0.2}, 0)
	usage.Endpoints[1].Limits[0] = storyUsedLimit(api.Day, 1200, 900)
	usage.Limits = []api.UsageLimit{storyUsedLimit("second", 3, 0)}
	f.fillLimit(usage, []api.Override{{Endpoint: "convert", Period: api.Day, Limit: new(int64(1200))}, {Endpoint: api.All, Period: "second", Limit: new(int64(3))}})
	if values.Has("calls") {
		_, err := new(site).make(context.Background(), f)
		f.Problem = adviceOf(err)
	}
	return operatorStory("operatoraction", f.Title, f)
}

func tryStory(found *api.Explanation) story {
	view := tryView{fields: storyVisit("free").fields(url.Values{"target": {"/api/convert"}, "account": {"ada@example.com"}}), Found: found, visit: storyVisit("free")}
	return operatorStory("operatortry", "Try a request", view)
}

func storyExplanation() *api.Explanation {
	at := time.Date(2026, 11, 20, 23, 0, 0, 0, time.UTC)
	return &api.Explanation{
		Request: api.ExplainedRequest{Method: "GET", Target: "/api/convert/EUR/10/USD?" + strings.Repeat("long", 30)}, Account: "acc_4fTg0Wq1ZrXbL7uKc9Yd", Plan: "starter",
		Status: new(429), Code: new("quota_exceeded"), Message: "The quota of 1000 calls a day for convert is used up.", RetryAfter: new(int64(15149)), Mode: api.ModeEnforce,
		Steps: []api.ExplainedStep{
			{Step: "path", OK: true, Message: "There is one way to read the path."}, {Step: "headers", OK: true, Message: "The gate removes headers that clients must not set."},
			{Step: "route", OK: true, Message: "The endpoint convert."}, {Step: "token", OK: true, Message: "The key is live, and the account is not disabled."},
			{Step: "entitlement", OK: true, Message: "The plan has the endpoint, and the key has the ability convert."},
			{Step: "quota", Message: "The quota of 1000 calls a day for convert is used up."},
		},
		Limits: []api.CallLimit{
			{Endpoint: "convert", Period: "day", Limit: 1000, Of: "account", Used: new(int64(1000)), ResetsAt: &at, Refuses: true},
			{Endpoint: api.All, Period: "second", Limit: 50, Of: "account", Remaining: 49},
		},
	}
}

func todayStory(numbers *api.Summary, days int) story {
	view := todayView{visit: storyVisit("free"), Days: days, Checks: []api.Check{{Name: "gate", OK: true, Message: "The gate admits calls."},
		{Name: "rates", Message: "2 publications of the bank missing: calls without a date get the last rates, with their date.", Remedy: "Run the command rates refresh of upstream: see TollgateRatesMissed in docs/operations.md."}}}
	if numbers != nil {
		view.fill(*numbers)
	}
	return operatorStory("operatortoday", "Today", view)
}

func storySummary() *api.Summary {
	summary := &api.Summary{At: storyTime, Accounts: 104212, Disabled: 31, Checks: []api.Check{
		{Name: "webhook", OK: true, Message: "No event waits for delivery."},
		{Name: "backup", Message: "No backup of the gate ever succeeded.", Remedy: "Run systemctl enable --now tollgate-backup.timer and systemctl start tollgate-backup. If that fails, journalctl -u tollgate-backup says why."},
	}}
	for i, day := range storyUsage(map[string]float64{"convert": 0.4}, 0).Days {
		summary.Days = append(summary.Days, api.SummaryDay{Day: day.Day, Calls: day.Calls, Refused: map[string]int64{
			"quota_exceeded": int64(i * 7 % 19 * 30), "invalid_token": int64(i * 5 % 11 * 9), "rate_limited": int64(i % 4 * 12),
		}})
	}
	for i := range 10 {
		id, label := fmt.Sprintf("acc_%020d", i), fmt.Sprintf("person%d@example.com", i)
		if i == 4 {
			label = strings.Repeat("L", 200)
		}
		summary.Nearest = append(summary.Nearest, api.NearestLimit{Account: id, Label: label, Endpoint: "convert", Period: api.Day, Limit: 1000, Used: int64(1000 - i*50), Remaining: int64(i * 50), ResetsAt: new(storyTime.Add(4 * time.Hour))})
		summary.MostRefused = append(summary.MostRefused, api.RefusedAccount{Account: id, Label: label, Calls: int64(4000 / (i + 1)), Codes: map[string]int64{"quota_exceeded": int64(3900 / (i + 1)), "invalid_token": 100}})
	}
	return summary
}
