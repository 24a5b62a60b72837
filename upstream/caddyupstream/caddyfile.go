package caddyupstream

import (
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// parse parses the directive:
//
//	tollgate_upstream [<matcher>] {
//		address  <address>
//		data     <directory>
//		database <url>
//		signup   off|on|<plan>
//		name     <text>
//		logo     <file>
//		contact  <url>|<e-mail>
//		rates    <url>|embedded|none
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
		option := u.option(name)
		if option == nil {
			return nil, h.Errf("unknown option %q: use %s", name, strings.Join(options, ", "))
		}
		if line, duplicate := first[name]; duplicate {
			return nil, h.Errf("duplicate option %q (first at line %d)", name, line)
		}
		first[name] = h.Line()
		if !h.AllArgs(option) {
			return nil, h.Errf("wrong number of arguments: write %s <value>", name)
		}
	}
	return u, nil
}
