// Package order tests the gate together with Caddy modules of other projects,
// in each order of the handlers. Its Caddy is built in e2e/modules. The tests run with
// "xcaddy.sh test --long".
package order
