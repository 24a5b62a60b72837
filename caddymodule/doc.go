// Package caddymodule is the gate as Caddy modules: the app "tollgate"
// that holds the configuration and the store, the handlers "tollgate" and
// "tollgate_control", the control API on Caddy's admin endpoint, and the
// command "caddy tollgate".
//
// A service that is a Caddy handler in the same process uses Configured,
// App.AtStart, Passed and ControlClient.
//
// The package redis adds the store "redis" to a build. Another package adds a
// store in the same way: it registers a StoreOpener in the namespace tollgate.stores.
//
// The modules are thin. They adapt the packages below this one, which do not
// import Caddy:
//
//	token      the tokens that clients send
//	calendar   days and their midnights
//	login      the limits of login attempts
//	assertion  the signed header that identifies a call to a service
//	control    the types of the control API, its client and its commands
//	store      the contract of a store
//	outage     log lines for failures that repeat
//	apierror   the format of refusals
//
//	internal/gate         the steps of one request
//	internal/route        unambiguous paths, guarded prefixes, patterns
//	internal/policy       endpoints, plans and limits, compiled
//	internal/usage        the usage document of an account
//	internal/admin        the control API, backups, events, reports of refused
//	                      calls, and whether the gate can admit calls
//	internal/badgerstore  the store "badger", for one process
//	internal/redisstore   the store "redis", for several gates
package caddymodule

import (
	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
)

// All registrations are in one place, so that the order of directives does
// not depend on file names.
func init() {
	caddy.RegisterModule((*App)(nil))
	caddy.RegisterModule((*Gate)(nil))
	caddy.RegisterModule((*BadgerStore)(nil))
	caddy.RegisterModule((*Control)(nil))
	caddy.RegisterModule((*Admin)(nil))

	httpcaddyfile.RegisterGlobalOption("tollgate", parseApp)
	httpcaddyfile.RegisterDirective("tollgate", parseGate)
	// After all directives that rewrite a request, so that the gate checks
	// what the upstream gets, and before all that answer it.
	httpcaddyfile.RegisterDirectiveOrder("tollgate", httpcaddyfile.Before, "request_header")

	httpcaddyfile.RegisterHandlerDirective("tollgate_control", parseControl)
	// Among the directives that answer requests, because it answers all.
	httpcaddyfile.RegisterDirectiveOrder("tollgate_control", httpcaddyfile.Before, "respond")

	caddycmd.RegisterCommand(command())
	setOtherHosts()
}
