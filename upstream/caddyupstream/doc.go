// Package caddyupstream is the upstream as Caddy modules, for one process
// with the gate: the handler "tollgate_upstream" and the command "caddy
// upstream".
//
// The handler replaces the proxy and the process bin/upstream. It asks the
// gate's control API in memory, and answers API calls and logins that the
// gate has passed. How the gate tells it is state of the request that
// clients cannot write; the handler reads no header about identity.
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
	caddycmd.RegisterCommand(command())
}
