package admin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/internal/apierror"
	"github.com/caddy-tollgate/tollgate/internal/store"
)

var (
	errNameTaken       = apierror.New(http.StatusConflict, "name_taken", "A live key of the account already has this name: choose another, or revoke that key.")
	errTooManyKeys     = apierror.New(http.StatusConflict, "too_many_keys", fmt.Sprintf("The account has %d live keys; revoke one first.", store.MaxLiveKeys))
	errReplaced        = apierror.New(http.StatusConflict, "name_taken", "The key is already replaced. Rotate its replacement, or revoke this key.")
	errEnding          = apierror.New(http.StatusConflict, "key_replaced", "The key is already replaced and cannot expire later. Change its replacement.")
	errUnknownKey      = apierror.New(http.StatusNotFound, "not_found", "There is no such key.")
	errUnknownToken    = apierror.New(http.StatusNotFound, "not_found", fmt.Sprintf("No key or login token has this SHA-256, or it ended too long ago: a key is kept for %d days after its end, at most the last %d of an account.", store.RevokedFor/(24*time.Hour), store.MaxEndedKeys))
	errEnded           = apierror.New(http.StatusNotFound, "not_found", "The account has no such live key: see the list of its keys.")
	errNoOverlap       = apierror.New(http.StatusConflict, "too_many_keys", fmt.Sprintf("The account has %d live keys. Rotate without overlap, or revoke one first.", store.MaxLiveKeys))
	errPlanRequired    = apierror.New(http.StatusForbidden, "plan_required", "The account's plan gives no access to the API.")
	errAccountDisabled = apierror.New(http.StatusForbidden, "account_disabled", "The account is disabled.")
	errInvalidName     = apierror.New(http.StatusBadRequest, "invalid_name", "A key's name has 1 to 64 characters: at least one letter, digit, punctuation mark or symbol, and no invisible character.")
	errInvalidLabel    = apierror.New(http.StatusBadRequest, "invalid_label", "A label has at most 200 characters, none of them invisible.")
	errTwoExpiries     = apierror.New(http.StatusBadRequest, "invalid_expiry", "Set either expires_at or ttl, not both.")
	errNoAbility       = apierror.New(http.StatusBadRequest, "invalid_request", "A key needs at least one ability.")
	errUnavailable     = apierror.New(http.StatusServiceUnavailable, "unavailable", "The gate cannot do this now. Please try again shortly.").
				WithHeader("Retry-After", "5")
	errStarting = apierror.New(http.StatusServiceUnavailable, "unavailable", "The gate is starting: it opens its store. Please try again shortly.").
			WithHeader("Retry-After", "5")
)

// refuse turns an error into a refusal, and nil into nil. It logs errors
// that the client did not cause.
func (s *server) refuse(ctx context.Context, err error) error {
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
	case errors.Is(err, store.ErrNameTaken):
		return errNameTaken
	case errors.Is(err, store.ErrTokenTaken):
		return errTokenTaken
	case errors.Is(err, store.ErrReplaced):
		return errReplaced
	case errors.Is(err, store.ErrTooManyKeys):
		return errTooManyKeys
	}
	if ctx.Err() == nil {
		s.calls.Failed(slog.Any("error", err))
	}
	return errUnavailable
}

// refusal is refuse for an error that is not nil.
func (s *server) refusal(ctx context.Context, err error) *apierror.Error {
	var refused *apierror.Error
	errors.As(s.refuse(ctx, err), &refused)
	return refused
}

func unknownEndpoint(status int, name string) error {
	return apierror.New(status, "unknown_endpoint", fmt.Sprintf("Unknown endpoint %.64q.", name))
}

func invalidPace(period store.Period) error {
	return apierror.New(http.StatusBadRequest, "invalid_limit", fmt.Sprintf("A limit for each %s is at least 1.", period))
}

func invalidAddress(text string) error {
	return apierror.New(http.StatusBadRequest, "invalid_address",
		fmt.Sprintf("%.64q is neither a network such as 203.0.113.0/24 nor an IP address without a zone.", text))
}

func invalidExpiry(message string) error {
	return apierror.New(http.StatusBadRequest, "invalid_expiry", message)
}

func invalidRequest(message string) *apierror.Error {
	return apierror.New(http.StatusBadRequest, "invalid_request", message)
}
