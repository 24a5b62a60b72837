package api

import (
	"regexp"
	"strconv"
)

// An account id has 1 to MaxAccount letters, digits and . _ @ - and not dots
// alone: one or two dots have a meaning of their own in a path.
const (
	AccountPattern = `^\.{0,63}[A-Za-z0-9_@-][A-Za-z0-9._@-]*$`
	MaxAccount     = 64
)

var accountIDs = regexp.MustCompile(AccountPattern)

// ValidAccount reports whether id has the syntax of an account id.
func ValidAccount(id string) bool { return len(id) <= MaxAccount && accountIDs.MatchString(id) }

// The ids that upstream makes have this prefix and this number of letters and
// digits behind it.
const (
	MadePrefix = "acc_"
	MadeLength = 20
)

var madeIDs = regexp.MustCompile("^" + MadePrefix + "[0-9A-Za-z]{" + strconv.Itoa(MadeLength) + "}$")

// LooksMade reports whether id has the form of those that upstream makes.
func LooksMade(id string) bool { return madeIDs.MatchString(id) }
