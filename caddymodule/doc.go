// Package caddymodule has Caddy modules for API keys, quotas, rate limits and
// usage metering in front of an HTTP API. Import it into a build of Caddy for its
// side effects, or let xcaddy do so:
//
//	xcaddy build --with github.com/caddy-tollgate/tollgate/caddymodule
//
// It registers the global option and app "tollgate", which has the whole
// configuration; the directive and handler "tollgate", which checks each request;
// "tollgate_control", which serves the control API; the same API on Caddy's admin
// endpoint; the store "badger"; the log format "tollgate"; and the command "caddy
// tollgate". The comments of App, BadgerStore, Control, Gate and LogEncoder are
// the manual of their options.
//
// A service that is a Caddy handler in the same process uses Configured,
// App.AtStart, Passed and ControlClient.
//
// The packages below this one are for others too:
//
//	redis           the store "redis", for several gates
//	control/client  the client of the control API
//	control/api     its types
//	assertion       the signed header that identifies a call to a service
package caddymodule
