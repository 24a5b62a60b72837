// Package caddysuite runs the integration tests of Caddy with the gate in front
// of every route: on open paths, a site with the gate means what it means
// without it.
package caddysuite
