package admin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/internal/apierror"
	"github.com/caddy-tollgate/tollgate/internal/store"
)

var (
	ErrTokenTaken      = apierror.New(http.StatusConflict, "token_taken", "The token is a live key of another account.")
	errNameTaken       = apierror.New(http.StatusConflict, "name_taken", "A live key of the account already has this name: choose another, or revoke that key.")
	errTooManyKeys     = apierror.New(http.StatusConflict, "too_many_keys", fmt.Sprintf("The account has %d live keys; revoke one first.", store.MaxLiveKeys))
	errReplaced        = apierror.New(http.StatusConflict, "name_taken", "The key is already replaced. Rotate its replacement, or revoke this key.")
	errEnding          = apierror.New(http.StatusConflict, "key_replaced", "The key is already replaced and cannot expire later. Change its replacement.")
	errEnded           = apierror.New(http.StatusNotFound, "not_found", "The account has no such live key: see the list of its keys.")
	errNoOverlap       = apierror.New(http.StatusConflict, "too_many_keys", fmt.Sprintf("The account has %d live keys. Rotate without overlap, or revoke one first.", store.MaxLiveKeys))
	errDeclared        = apierror.New(http.StatusConflict, "declared", "The configuration file declares this account or key: change it there, and load the file.")
	errPlanRequired    = apierror.New(http.StatusForbidden, "plan_required", "The account's plan gives no access to the API.")
	ErrAccountDisabled = apierror.New(http.StatusForbidden, "account_disabled", "The account is disabled.")
	ErrInvalidName     = apierror.New(http.StatusBadRequest, "invalid_name", "A key's name has 1 to 64 characters: at least one letter, digit, punctuation mark or symbol, and no invisible character.")
	errInvalidLabel    = apierror.New(http.StatusBadRequest, "invalid_label", "A label has at most 200 characters, none of them invisible.")
	errTwoExpiries     = apierror.New(http.StatusBadRequest, "invalid_expiry", "Set either expires_at or ttl, not both.")
	ErrNoAbility       = apierror.New(http.StatusBadRequest, "invalid_request", "A key needs at least one ability.")
	ErrUnavailable     = apierror.New(http.StatusServiceUnavailable, "unavailable", "The gate cannot do this now. Please try again shortly.").
				WithHeader("Retry-After", "5")
	errStarting = apierror.New(http.StatusServiceUnavailable, "unavailable", "The gate is starting: it opens its store. Please try again shortly.").
			WithHeader("Retry-After", "5")
)

// Refuse turns an error into a refusal, and nil into nil. It logs errors
// that the client did not cause.
func (s *Server) Refuse(ctx context.Context, err error) error {
	var refused *apierror.Error
	switch {
	case err == nil:
		s.calls.Worked()
		return nil
	case errors.As(err, &refused):
		return refused
	case errors.Is(err, store.ErrOpening):
		return errStarting
	case errors.Is(err, store.ErrNotFound):
		return api.ErrNotFound
	case errors.Is(err, store.ErrDeclared):
		return errDeclared
	case errors.Is(err, store.ErrNameTaken):
		return errNameTaken
	case errors.Is(err, store.ErrTokenTaken):
		return ErrTokenTaken
	case errors.Is(err, store.ErrReplaced):
		return errReplaced
	case errors.Is(err, store.ErrTooManyKeys):
		return errTooManyKeys
	}
	if ctx.Err() == nil {
		s.calls.Failed(slog.Any("error", err))
	}
	return ErrUnavailable
}

// Refusal is Refuse for an error that is not nil.
func (s *Server) Refusal(ctx context.Context, err error) *apierror.Error {
	var refused *apierror.Error
	errors.As(s.Refuse(ctx, err), &refused)
	return refused
}

// UnknownEndpoint refuses the name of an endpoint.
func UnknownEndpoint(status int, name string) error {
	return apierror.New(status, "unknown_endpoint", fmt.Sprintf("Unknown endpoint %.64q.", name))
}

func invalidPace(period store.Period) error {
	return apierror.New(http.StatusBadRequest, "invalid_limit", fmt.Sprintf("A limit for each %s is at least 1.", period))
}

// InvalidAddress refuses a network or an address.
func InvalidAddress(text string) error {
	return apierror.New(http.StatusBadRequest, "invalid_address",
		fmt.Sprintf("%.64q is neither a network such as 203.0.113.0/24 nor an IP address without a zone.", text))
}

func invalidExpiry(message string) error {
	return apierror.New(http.StatusBadRequest, "invalid_expiry", message)
}

// InvalidRequest refuses a request that is not valid.
func InvalidRequest(message string) *apierror.Error {
	return apierror.New(http.StatusBadRequest, "invalid_request", message)
}
