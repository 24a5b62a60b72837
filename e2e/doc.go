// Package e2e tests the built programs from outside, as an operator and
// a client meet them.
package e2e
