package api

import (
	"net/http"

	"github.com/caddy-tollgate/tollgate/caddymodule/apierror"
)

// Refusals of the gate that package client also returns by itself.
var (
	// ErrInvalidAccount is for an invalid account id.
	ErrInvalidAccount = apierror.New(http.StatusBadRequest, "invalid_account",
		"An account id has 1 to 64 characters, each a letter, a digit or one of . _ @ - and not dots alone.")

	// ErrNotFound is for an unknown account or key.
	ErrNotFound = apierror.New(http.StatusNotFound, "not_found", "There is no such account or key.")
)
