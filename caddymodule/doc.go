// Package caddymodule is the gate as Caddy modules: the app "tollgate"
// that holds the configuration and the store, the handlers "tollgate" and
// "tollgate_control", the control API on Caddy's admin endpoint, and the
// command "caddy tollgate".
//
// The modules are thin. What they adapt stands in the packages below,
// none of which knows Caddy:
//
//	gate      the way of one request, step by step
//	route     which requests are clear, which paths closed, what they lead to
//	token     the secrets that clients send
//	policy    endpoints, plans and limits, compiled
//	calendar  days, and the midnight that ends them
//	throttle  how fast passwords may be tried
//	control   the administration over HTTP, and its client
//	health    whether the gate can admit calls now
//	usage     what an account used, as a document
//	store     the contract of what is kept, and the stores
//	ledger    the state machine below a store
//	apierror  the one shape of a refusal
package caddymodule

import (
	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
)

// All registrations stand in one place because the order of directives
// must not depend on the names of files.
func init() {
	caddy.RegisterModule((*App)(nil))
	caddy.RegisterModule((*Gate)(nil))
	caddy.RegisterModule((*BadgerStore)(nil))
	caddy.RegisterModule((*Control)(nil))
	caddy.RegisterModule((*Admin)(nil))

	httpcaddyfile.RegisterGlobalOption("tollgate", parseApp)
	httpcaddyfile.RegisterDirective("tollgate", parseGate)
	// After everything that rewrites a request, so that the gate judges
	// what the upstream will be sent; before everything that answers.
	httpcaddyfile.RegisterDirectiveOrder("tollgate", httpcaddyfile.Before, "request_header")

	httpcaddyfile.RegisterHandlerDirective("tollgate_control", parseControl)
	// It answers everything, so it stands where answers are made.
	httpcaddyfile.RegisterDirectiveOrder("tollgate_control", httpcaddyfile.Before, "respond")

	caddycmd.RegisterCommand(command())
}
