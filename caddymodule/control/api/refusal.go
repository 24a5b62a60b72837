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

	// ErrInvalidPeriod is for a period that a limit cannot have.
	ErrInvalidPeriod = apierror.New(http.StatusBadRequest, "invalid_period", "The period is second, minute, hour, day or month.")

	// ErrUnknownEndpoint is for a limit of an endpoint that does not exist.
	ErrUnknownEndpoint = apierror.New(http.StatusNotFound, "unknown_endpoint", "There is no such endpoint.")
)
