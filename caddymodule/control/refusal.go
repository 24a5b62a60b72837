package control

import (
	"net/http"
	"regexp"

	"github.com/caddy-tollgate/tollgate/caddymodule/apierror"
)

// Refusals that the client gives as well, without asking the gate.
var (
	// ErrInvalidAccount refuses an account id.
	ErrInvalidAccount = apierror.New(http.StatusBadRequest, "invalid_account",
		"An account id has 1 to 64 characters, each a letter, a digit or one of . _ @ -")

	// ErrNotFound refuses what does not exist, or not for that account.
	ErrNotFound = apierror.New(http.StatusNotFound, "not_found", "There is no such account or key.")
)

var accountIDs = regexp.MustCompile(`^[A-Za-z0-9._@-]{1,64}$`)

// ValidAccount tells whether id can be the id of an account. A single
// and a double dot cannot: as a segment of a path they are not an id.
func ValidAccount(id string) bool {
	return accountIDs.MatchString(id) && id != "." && id != ".."
}
