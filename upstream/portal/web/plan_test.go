package web

import (
	"context"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/chromedp"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/upstream/portal/web/browsertest"
)

// The page of the plans names what another plan adds, lacks and limits in
// another way.
func TestPlanChanges(t *testing.T) {
	t.Parallel()
	every := []string{"currencies", "convert", "rates", "history", "batch", "usage"}
	var endpoints []planEndpoint
	for _, name := range every {
		endpoints = append(endpoints, planEndpoint{Name: name, Routes: "/" + name})
	}
	endpoints = append(endpoints, planEndpoint{Name: "All endpoints"})
	type changes struct{ Added, Missing, Other []string }
	for _, c := range []struct {
		own, plan string
		want      changes
		others    int
	}{
		{"starter", "free", changes{Missing: every}, 6},
		{"starter", "starter", changes{}, 0},
		{"starter", "business", changes{Missing: every[4:], Other: append(slices.Clone(every[:4]), "All endpoints")}, 7},
		{"business", "starter", changes{Added: every[4:], Other: append(slices.Clone(every[:4]), "All endpoints")}, 7},
		{"free", "business", changes{Added: every[:4]}, 5},
	} {
		row := newPlanRow(endpoints, planOf(storyPlans(), c.plan), planOf(storyPlans(), c.own))
		if got := (changes{row.Added, row.Missing, row.Other}); !reflect.DeepEqual(got, c.want) {
			t.Errorf("from %s to %s: got %+v, want %+v", c.own, c.plan, got, c.want)
		}
		others := 0
		for _, cell := range row.Cells {
			if cell.Other {
				others++
			}
		}
		if others != c.others || len(row.Cells) != len(endpoints) || row.Current != (c.own == c.plan) {
			t.Errorf("from %s to %s: got %+v, want %d cells that differ", c.own, c.plan, row, c.others)
		}
	}
}

// The page of the plans has one call to action, the contact, and none without
// a contact.
func TestPlanContact(t *testing.T) {
	t.Parallel()
	s := storySite(t)
	for name, want := range map[string]int{"plan": 0, "plan-free": 0, "plan-contact": 1} {
		body := tell(t, s, name).Body.String()
		_, main, _ := strings.Cut(body, "<main")
		main, _, _ = strings.Cut(main, "</main>")
		if got := strings.Count(main, `class="button`); got != want {
			t.Errorf("%s has %d buttons, want %d", name, got, want)
		}
		if got := strings.Count(main, `href="mailto:help@example.com"`); got != want {
			t.Errorf("%s has %d links to the contact, want %d", name, got, want)
		}
	}
}

// Screen readers read one table of the plans, on a wide screen with columns and
// on a phone with cards.
func TestPlanTable(t *testing.T) {
	t.Parallel()
	server, browser := gallery(t), browsertest.Start(t)
	for _, name := range []string{"1440-light", "320-light"} {
		var tab context.Context
		keep := func(ctx context.Context) error { tab = ctx; return nil }
		page := browser.Person(append(looks[name].options(), keep)...)
		page.Go(server.URL + "/plan")
		tree, err := chromedp.Call(tab, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{})
		if err != nil {
			t.Fatal(err)
		}
		got, want := map[string]int{}, map[string]int{"table": 1, "row": 4, "columnheader": 9, "rowheader": 3, "cell": 24}
		for _, node := range tree.Nodes {
			if role := strings.Trim(string(node.Role.Value), `"`); !node.Ignored && want[role] > 0 {
				got[role]++
			}
		}
		if !maps.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
		// Other browsers forget the roles of a table with another layout.
		if n := browsertest.Evaluate[int](page, `document.querySelectorAll(".plans :is(thead, tbody, tr, th, td):not([role])").length`); n > 0 {
			t.Errorf("%s: %d parts of the table have no role", name, n)
		}
	}
}

// The sample of a key calls an endpoint of its plan that it may call.
func TestSampleEndpoints(t *testing.T) {
	t.Parallel()
	endpoints := map[string]api.Endpoint{
		"list":   {Name: "list", Method: "GET", Path: "/v1/items/{$}", Patterns: []string{"GET /v1/items/{$}"}, Ability: "items"},
		"get":    {Name: "get", Method: "GET", Path: "/v1/items/{id}", Patterns: []string{"GET /v1/items/{id}"}, Ability: "items"},
		"files":  {Name: "files", Method: "GET", Path: "/v1/files/{path...}", Patterns: []string{"GET /v1/files/{path...}"}, Ability: "files"},
		"delete": {Name: "delete", Method: "DELETE", Path: "/v1/items/{id}", Patterns: []string{"DELETE /v1/items/{id}"}, Ability: "items"},
		"rates":  {Name: "rates", Method: "GET", Path: "/api/rates/{base}", Patterns: []string{"GET /api/rates/{base}"}, Ability: "rates"},
		"usage":  {Name: "usage", Method: "GET", Path: "/v1/usage", Patterns: []string{"GET /v1/usage"}, Ability: "usage"},
	}
	every := []string{"items", "files", "rates", "usage"}
	for name, c := range map[string]struct {
		plan      []string // the endpoints of the gate and of the plan
		abilities []string
		noRates   bool
		path      string
		wildcards bool
	}{
		"list before get":           {[]string{"get", "list", "usage"}, every, true, "/v1/items/", false},
		"get":                       {[]string{"delete", "get", "usage"}, every, true, "/v1/items/{id}", true},
		"rest of the path":          {[]string{"files", "usage"}, every, true, "/v1/files/{path...}", true},
		"only those of the key":     {[]string{"list", "files"}, []string{"files"}, true, "/v1/files/{path...}", true},
		"no example values":         {[]string{"rates"}, every, true, "/api/rates/{base}", true},
		"example values":            {[]string{"rates"}, every, false, "/api/rates/EUR", false},
		"nothing that changes data": {[]string{"delete"}, every, true, "", false},
		"the gate's own":            {[]string{"delete", "usage"}, every, true, "/v1/usage", false},
		"no access":                 {nil, every, true, "", false},
	} {
		v := &visit{plan: api.Plan{Limits: map[string]*int64{}}}
		for _, endpoint := range c.plan {
			v.plans.Endpoints = append(v.plans.Endpoints, endpoints[endpoint])
			v.plan.Limits[endpoint] = nil
		}
		// An endpoint of another plan.
		v.plans.Endpoints = append(v.plans.Endpoints, api.Endpoint{Name: "more", Method: "GET", Path: "/v1/more", Patterns: []string{"GET /v1/more"}, Ability: "items"})
		s := &site{Config: Config{Site: Site{NoRates: c.noRates, Address: &url.URL{Scheme: "https", Host: "weather.example"}}}}
		got := s.sample(v, c.abilities, "tgk_x")
		if c.path == "" {
			if got != nil {
				t.Errorf("%s: got %+v, want none", name, got)
			}
			continue
		}
		want := sample{`curl "https://weather.example` + c.path + `" -H "Authorization: Bearer tgk_x"`, c.wildcards}
		if got == nil || *got != want {
			t.Errorf("%s: got %+v, want %+v", name, got, want)
		}
	}
}
