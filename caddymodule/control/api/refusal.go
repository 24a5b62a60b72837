package api

import (
	"net/http"

	"github.com/caddy-tollgate/tollgate/caddymodule/apierror"
)

// Refusals that the client gives as well, without asking the gate.
var (
	// ErrInvalidAccount refuses an account id.
	ErrInvalidAccount = apierror.New(http.StatusBadRequest, "invalid_account",
		"An account id has 1 to 64 characters, each a letter, a digit or one of . _ @ - and not dots alone.")

	// ErrNotFound refuses what does not exist, or not for that account.
	ErrNotFound = apierror.New(http.StatusNotFound, "not_found", "There is no such account or key.")
)
