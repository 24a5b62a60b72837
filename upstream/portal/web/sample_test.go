package web

import (
	"net/url"
	"testing"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
)

// The sample of a key calls an endpoint of its plan that it may call.
func TestSampleEndpoints(t *testing.T) {
	t.Parallel()
	endpoints := map[string]api.Endpoint{
		"list":   {Name: "list", Method: "GET", Path: "/v1/items/{$}", Ability: "items"},
		"get":    {Name: "get", Method: "GET", Path: "/v1/items/{id}", Ability: "items"},
		"files":  {Name: "files", Method: "GET", Path: "/v1/files/{path...}", Ability: "files"},
		"delete": {Name: "delete", Method: "DELETE", Path: "/v1/items/{id}", Ability: "items"},
		"rates":  {Name: "rates", Method: "GET", Path: "/api/rates/{base}", Ability: "rates"},
		"usage":  {Name: "usage", Method: "GET", Path: "/v1/usage", Ability: "usage"},
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
		v.plans.Endpoints = append(v.plans.Endpoints, api.Endpoint{Name: "more", Method: "GET", Path: "/v1/more", Ability: "items"})
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
