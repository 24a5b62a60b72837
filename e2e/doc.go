// Package e2e tests the built programs from outside, as operators and
// clients use them.
package e2e
