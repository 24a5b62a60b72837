package api

import (
	"net/http"

	"github.com/caddy-tollgate/tollgate/internal/apierror"
)

// Refusals of the gate that package client also returns by itself.
var (
	// ErrInvalidAccount is for an invalid account id.
	ErrInvalidAccount = apierror.New(http.StatusBadRequest, "invalid_account",
		"An account id has 1 to 64 characters, each a letter, a digit or one of . _ @ - and not dots alone.")

	// ErrNotFound is for an unknown account. errors.Is also finds it in
	// ErrNoKey, which has the same code.
	ErrNotFound = apierror.New(http.StatusNotFound, "not_found", "There is no such account.")

	// ErrNoKey is for an unknown key of a known account.
	ErrNoKey = apierror.New(http.StatusNotFound, "not_found", "The account has no such key.")

	// ErrInvalidPeriod is for a period that a limit cannot have.
	ErrInvalidPeriod = apierror.New(http.StatusBadRequest, "invalid_period", "The period is second, minute, hour, day, week, month or total.")

	// ErrInvalidReason is for a reason that the gate does not accept.
	ErrInvalidReason = apierror.New(http.StatusBadRequest, "invalid_reason",
		"A reason has at most 200 characters, none of them invisible, and is sent once.")

	// ErrUnknownEndpoint is for a limit of an endpoint that does not exist.
	ErrUnknownEndpoint = apierror.New(http.StatusNotFound, "unknown_endpoint", "There is no such endpoint.")
)
