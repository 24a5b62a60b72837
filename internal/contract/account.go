// Package contract has what the gate and its clients share: the usage document
// and the syntax of account ids. Package api gives them to programs outside.
package contract

import "regexp"

// An account id has 1 to MaxAccount letters, digits and . _ @ - and not dots
// alone: one or two dots have a meaning of their own in a path.
const (
	AccountPattern = `^\.{0,63}[A-Za-z0-9_@-][A-Za-z0-9._@-]*$`
	MaxAccount     = 64
)

var accountIDs = regexp.MustCompile(AccountPattern)

// ValidAccount reports whether id has the syntax of an account id.
func ValidAccount(id string) bool { return len(id) <= MaxAccount && accountIDs.MatchString(id) }
