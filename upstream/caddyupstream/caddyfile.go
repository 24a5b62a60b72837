package caddyupstream

import (
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-tollgate/tollgate/upstream/app"
)

// parse parses the directive:
//
//	tollgate_upstream [<matcher>] {
//		address       <address>
//		data          <directory>
//		database      <url>
//		timezone      <zone>
//		signup        on|off
//		signup_plan   <plan>
//		no_rates      on|off
//		name          <text>
//		logo          <file>
//		contact       <url>|<e-mail>
//		rates_history <url>|off
//		rates_daily   <url>|off
//	}
func parse(h httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
	h.Next() // the directive's name
	if h.NextArg() {
		return nil, h.Err("wrong number of arguments: write tollgate_upstream { ... }")
	}
	u := new(Upstream)
	first := map[string]int{}
	for h.NextBlock(0) {
		name := h.Val()
		text, flag := u.text(name), u.flag(name)
		if text == nil && flag == nil {
			return nil, h.Errf("unknown option %q: use %s, signup, no_rates", name, strings.Join(texts, ", "))
		}
		if line, duplicate := first[name]; duplicate {
			return nil, h.Errf("duplicate option %q (first at line %d)", name, line)
		}
		first[name] = h.Line()
		var value string
		if !h.AllArgs(&value) {
			return nil, h.Errf("wrong number of arguments: write %s <value>", name)
		}
		if text != nil {
			*text = value
			continue
		}
		on, err := app.ParseSwitch(value)
		if err != nil {
			return nil, h.Errf("invalid value %q of %s: use on or off", value, name)
		}
		*flag = on
	}
	return u, nil
}
