// Package caddyupstream is the upstream as Caddy modules that run in the gate's
// process: the handler "tollgate_upstream" and the command "caddy upstream".
//
// The handler replaces the proxy and the process bin/upstream. It asks the
// gate's control API in memory, and answers API calls and logins that the
// gate has passed. The gate marks such requests in state that clients cannot
// write. The handler reads no identity from headers.
package caddyupstream

import (
	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
)

func init() {
	caddy.RegisterModule((*Upstream)(nil))
	httpcaddyfile.RegisterHandlerDirective("tollgate_upstream", parse)
	// Among the directives that answer requests, because it answers all.
	httpcaddyfile.RegisterDirectiveOrder("tollgate_upstream", httpcaddyfile.Before, "respond")
	caddycmd.RegisterCommand(upstreamCommand())
}
