package check

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/internal/policy"
	"github.com/caddy-tollgate/tollgate/internal/store"
)

// Losses compares a configuration with what accounts need. It returns a sentence
// for each thing that the configuration does not have, with the remedy.
func Losses(p *policy.Policy, c api.Census) (findings []string) {
	add := func(format string, args ...any) { findings = append(findings, fmt.Sprintf(format, args...)) }
	for _, plan := range slices.Sorted(maps.Keys(c.Plans)) {
		if plan != policy.FreePlan && p.Plan(plan) == nil {
			add("%s the plan %q, which the configuration does not have: their calls are refused. Keep the plan, or move each account that "+
				"caddy tollgate account list --plan %s shows: caddy tollgate account set <account> --plan <plan>, or caddy tollgate account import <file> for many.",
				have(c.Plans[plan], "account"), plan, plan)
		}
	}
	for _, plan := range slices.Sorted(maps.Keys(c.Then)) {
		if plan != policy.FreePlan && p.Plan(plan) == nil {
			add("%s the plan %q as the next one, which the configuration does not have: their calls are refused when theirs ends. Keep the plan, or give them another one: "+
				"caddy tollgate account list --json shows them with \"then\": %q, and account set <account> --until <date> --then <plan> changes it.",
				have(c.Then[plan], "account"), plan, plan)
		}
	}
	for _, ability := range slices.Sorted(maps.Keys(c.Abilities)) {
		today := p.Names.Abilities.Today(ability)
		if slices.ContainsFunc(p.Endpoints, func(e *policy.Endpoint) bool { return e.Ability == today }) {
			continue
		}
		remedy := fmt.Sprintf("In the endpoint that these keys are for, write rename %s, which keeps keys, counts and limits, or ability %s, which keeps keys.", ability, ability)
		if renamed := p.Names.Endpoints.Today(ability); renamed != ability {
			remedy = fmt.Sprintf("The endpoint %s had this name, but its ability is another one: write ability %s there, or no ability.", renamed, ability)
		}
		add("%s the ability %q, which no endpoint has: it opens nothing any more. %s", have(c.Abilities[ability], "live key"), ability, remedy)
	}
	for _, endpoint := range slices.Sorted(maps.Keys(c.Endpoints)) {
		if p.Endpoint(p.Names.Endpoints.Today(endpoint)) == nil {
			add("This month has counts of the endpoint %q (calls: %d), which the configuration does not have: they stay in usage export, and in no limit of an endpoint. "+
				"In the endpoint that replaces it, write rename %s, which goes on with its counts.", endpoint, c.Endpoints[endpoint], endpoint)
		}
	}
	if zone := p.Calendar.Zone(); c.Timezone != "" && c.Timezone != zone {
		add("The counts are of days in the time zone %s, and the configuration has %s. They keep their dates. The running day and month end at midnight in %s. "+
			"If the date there is another one, its limits are in force at once: reload while the date is the same in both, or keep timezone %s.",
			c.Timezone, zone, zone, c.Timezone)
	}
	return findings
}

// Doubts returns a sentence for each option that is valid and cannot be meant: a
// token header with the name of a switch, and a line of a plan or of the option
// anonymous that no call to an endpoint can ever meet, because the call always
// costs or reserves more.
func Doubts(p *policy.Policy) (findings []string) {
	if name := p.TokenHeader; name == "On" || name == "Off" {
		findings = append(findings, fmt.Sprintf("The option token_header %s makes %s the name of the header that has tokens: write the name of a header, such as X-Api-Key, or no token_header.", strings.ToLower(name), name))
	}
	check := func(of string, plan *policy.Plan, l store.Limit, line string) {
		var calls []string
		for _, e := range p.Endpoints {
			if e.Answer != nil && e.Answer.Bound != nil {
				continue // it depends on the request
			}
			if l.Max > 0 && l.Max < l.Weight(e.Cost) && l.Period != store.Total && plan.Lists(e) && e.Covered(l) {
				calls = append(calls, fmt.Sprintf("%s (%s %d)", e.Name, e.Takes(l), e.Cost))
			}
		}
		if len(calls) > 0 {
			line = fmt.Sprintf("%s %d %s", line, l.Number(), l.Period)
			if l.Soft {
				line += fmt.Sprintf(" soft %d", l.Max)
			}
			findings = append(findings, fmt.Sprintf("%s has the line %q, which refuses each call to %s with 403 cost_above_limit: raise the limit, or lower what a call costs.",
				of, line, strings.Join(calls, ", ")))
		}
	}
	for _, plan := range p.Plans {
		for _, l := range plan.Limits {
			line := l.Endpoint
			if line == store.All {
				line = "*"
			}
			check(fmt.Sprintf("The plan %q", plan.Name), plan, l, line)
		}
	}
	if a := p.Anonymous; a != nil {
		for _, l := range a.Limits {
			check("The option anonymous", a.Plan, l, "per_address")
		}
	}
	return findings
}

// have returns a number of things as the subject of a sentence.
func have(n int64, thing string) string {
	if n == 1 {
		return "1 " + thing + " has"
	}
	return fmt.Sprintf("%d %ss have", n, thing)
}
