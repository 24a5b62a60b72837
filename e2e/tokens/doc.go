// Package tokens tests how many tokens of a model a request of some bytes has.
package tokens
