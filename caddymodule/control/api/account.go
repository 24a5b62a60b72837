package api

import "regexp"

// AccountPattern is 1 to 64 letters, digits and . _ @ - that are not dots
// alone: one or two dots are no name as a segment of a path. The length
// is bounded apart.
const (
	AccountPattern = `^\.{0,63}[A-Za-z0-9_@-][A-Za-z0-9._@-]*$`
	MaxAccount     = 64
)

var accountIDs = regexp.MustCompile(AccountPattern)

// ValidAccount tells whether id can be the id of an account: 1 to 64
// letters, digits and . _ @ - and not dots alone.
func ValidAccount(id string) bool { return len(id) <= MaxAccount && accountIDs.MatchString(id) }
