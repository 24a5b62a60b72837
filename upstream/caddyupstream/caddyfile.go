package caddyupstream

import (
	"fmt"
	"slices"

	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-tollgate/tollgate/internal/misuse"
	"github.com/caddy-tollgate/tollgate/upstream/option"
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
		return nil, h.Err("wrong arguments: write tollgate_upstream { ... }")
	}
	u := new(Upstream)
	options := slices.DeleteFunc(u.All(), func(s option.Setting) bool { return s.Argument == "" })
	names := []string{}
	for _, o := range options {
		names = append(names, o.Name)
	}
	first := map[string]string{}
	for h.NextBlock(0) {
		name := h.Val()
		i := slices.Index(names, name)
		if i < 0 {
			return nil, h.Errf("unknown option %q: %s", name, misuse.Suggest(name, names))
		}
		if at, duplicate := first[name]; duplicate {
			return nil, h.Errf("duplicate option %q (first at %s)", name, at)
		}
		first[name] = fmt.Sprintf("%s:%d", h.File(), h.Line())
		if !h.AllArgs(options[i].Value) {
			return nil, h.Errf("wrong arguments: write %s %s", name, options[i].Argument)
		}
	}
	return u, nil
}
