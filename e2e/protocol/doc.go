// Package protocol tests protocols of HTTP through the built Caddy with the
// gate: what passes, what counts, and when it is refunded. The services are
// real servers of each protocol, which the tests start.
package protocol
