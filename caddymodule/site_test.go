package caddymodule_test

import (
	"errors"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/caddymodule"
	"github.com/caddy-tollgate/tollgate/internal/apierror"
)

// TestSite: links lead to the first address of the option site, else to that of
// TOLLGATE_ADDRESS, which is an address of Caddy's sites. If links cannot lead
// there, the gate works and refuses to make links.
func TestSite(t *testing.T) {
	t.Setenv("TOLLGATE_ADDRESS", "")
	s := start(t, setup{zone: calmZone(), more: "site https://a.example"})
	id, _ := s.account(t, "starter")
	for name, c := range map[string]struct{ address, pages, option, want string }{
		"default":                  {want: "http://localhost:8080/portal"},
		"address":                  {address: "shop.example", want: "https://shop.example/portal"},
		"several addresses":        {address: "http://shop.example:8000, b.example", want: "http://shop.example:8000/portal"},
		"every host":               {address: ":8000", want: "http://localhost:8000/portal"},
		"wildcard":                 {address: "*.shop.example"},
		"wildcard of several":      {address: "*.shop.example, shop.example"},
		"no host":                  {address: "http://"},
		"option":                   {address: "*.shop.example", option: "site https://pages.example:8443", want: "https://pages.example:8443/portal"},
		"option of several":        {option: "site pages.example,b.example", want: "https://pages.example/portal"},
		"placeholder":              {pages: "bücher.example", option: "site {env.PAGES}", want: "https://xn--bcher-kva.example/portal"},
		"empty placeholder":        {option: "site {env.PAGES}", want: "refused"},
		"placeholder, no address":  {pages: "ftp://a.example", option: "site {env.PAGES}", want: "refused"},
		"placeholder and wildcard": {pages: "https://*.example", option: "site {env.PAGES}", want: "refused"},
	} {
		t.Setenv("TOLLGATE_ADDRESS", c.address)
		t.Setenv("PAGES", c.pages)
		if name == "default" {
			os.Unsetenv("TOLLGATE_ADDRESS") // Setenv restores it
		}
		s.more = c.option
		if err := s.reload(); (err != nil) != (c.want == "refused") || err != nil && !strings.Contains(err.Error(), "site: ") {
			t.Errorf("%s: loading: got %v", name, err)
		}
		if c.want == "refused" {
			continue
		}
		link, err := caddymodule.ControlClient().Portal(t.Context(), id)
		var refused *apierror.Error
		if c.want == "" {
			if !errors.As(err, &refused) || refused.Code != "no_site" || refused.Status != 409 || !strings.Contains(refused.Message, "set the option site") {
				t.Errorf("%s: got %+v, %v", name, link, err)
			}
			continue
		}
		u, parseErr := url.Parse(link.URL)
		if err != nil || parseErr != nil || !strings.HasPrefix(link.URL, c.want+"?link=ey") || len(u.Query()) != 1 {
			t.Errorf("%s: got %s, %v; want %s", name, link.URL, err, c.want)
		}
	}
}
