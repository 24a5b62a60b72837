package gate

import (
	"net/http"
	"net/netip"
	"strconv"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/apierror"
	"github.com/caddy-tollgate/tollgate/caddymodule/internal/policy"
)

const contentType = apierror.ContentType

// retryUnavailable is the Retry-After of a store that cannot be reached,
// in seconds.
const retryUnavailable = "5"

// codeThrottled is the code of one password or one unknown token too many. Its
// page has a text of its own.
const codeThrottled = "too_many_attempts"

// Refusal is an answer of the gate itself. With Options.PassErrors, Serve
// returns it as an error. Refusals are shared and must not be changed.
type Refusal struct {
	// Status is the HTTP status code.
	Status int
	// Code is the stable code in the body.
	Code string
	// Message is the sentence in the body.
	Message string

	outcome Outcome
	header  []field // in every form of the refusal
	json    form
	// On a page, heading replaces the title of the status, notice replaces
	// Message, and reset is the end of the wait. They may be empty.
	heading, notice, reset string
}

// field is a response header, its name in canonical form.
type field struct{ name, value string }

// Error returns the message.
func (f *Refusal) Error() string { return f.Message }

// The refusals that are the same for all requests. The tokens that are
// unknown, expired, revoked or of a disabled account have one refusal, so
// that a client cannot tell these cases apart.
var (
	refuseBadPath  = fixed(http.StatusBadRequest, "bad_path", "The path can be read in more than one way. Send it in its plain form.", Malformed)
	refuseNotFound = fixed(http.StatusNotFound, "not_found", "There is nothing here.", NotFound)

	refuseInvalidToken = fixed(http.StatusUnauthorized, "invalid_token", "The token is not valid. It may be mistyped, expired or revoked.", Unauthenticated, challenge(`, error="invalid_token"`))
	refuseRequest      = fixed(http.StatusBadRequest, "invalid_request", "Send exactly one token, in one header, and none in the query.", Malformed, challenge(`, error="invalid_request"`))

	refusePlan        = fixed(http.StatusForbidden, "plan_required", "The account's plan has no access to the API.", NotEntitled)
	refuseEntitlement = fixed(http.StatusForbidden, "not_entitled", "The account's plan does not include this endpoint.", NotEntitled)

	refuseChanged     = fixed(http.StatusServiceUnavailable, "unavailable", "The account is being changed right now. Try again in a few seconds.", Unavailable, retryAfter(retryUnavailable))
	refuseUnavailable = fixed(http.StatusServiceUnavailable, "unavailable", "The service cannot check the request right now. Try again in a few seconds.", Unavailable, retryAfter(retryUnavailable))

	refuseBody      = fixed(http.StatusBadRequest, "invalid_request", "The body is not a valid login request: a JSON object or a form with email and password.", Malformed)
	refuseBodySize  = fixed(http.StatusRequestEntityTooLarge, "body_too_large", "A login request has at most 4096 bytes.", Malformed)
	refuseMediaType = fixed(http.StatusUnsupportedMediaType, "unsupported_media_type", "Send the login request as application/json or as a form, in UTF-8 and without Content-Encoding.", Malformed)

	unknownParameter = fixed(http.StatusBadRequest, "unknown_parameter", "The only query parameter here is days.", Malformed)
	invalidDays      = fixed(http.StatusBadRequest, "invalid_request", "Send the query parameter days once, as a whole number from 1 to 90.", Malformed)
)

// notFound is refuseNotFound with the address of the documentation, if there is
// one.
func notFound(docs string) *Refusal {
	if docs == "" {
		return refuseNotFound
	}
	f := fixed(refuseNotFound.Status, refuseNotFound.Code, refuseNotFound.Message+" The documentation of the API is at "+docs+".", refuseNotFound.outcome,
		field{"Link", "<" + docs + `>; rel="service-doc"`})
	f.notice = refuseNotFound.Message
	return f
}

// noBearer refuses a request whose Authorization has no Bearer token. It has the
// code and the challenge of unauthenticated.
var noBearer = fixed(http.StatusUnauthorized, "unauthenticated", "The Authorization header has no Bearer token. Write the word Bearer and one space in front of the token.", Unauthenticated, challenge(""))

// unauthenticated refuses a request without a token. tokenHeader is the second
// header for tokens, or "".
func unauthenticated(tokenHeader string) *Refusal {
	message := "Send an API key as a Bearer token in the Authorization header."
	if tokenHeader != "" {
		message = "Send an API key as a Bearer token in the Authorization header, or in the header " + tokenHeader + "."
	}
	return fixed(http.StatusUnauthorized, "unauthenticated", message, Unauthenticated, challenge(""))
}

func challenge(parameters string) field {
	return field{"Www-Authenticate", `Bearer realm="api"` + parameters}
}

func retryAfter(seconds string) field { return field{"Retry-After", seconds} }

// fixed prepares a refusal whose bytes are always the same.
func fixed(status int, code, message string, outcome Outcome, header ...field) *Refusal {
	body, err := apierror.New(status, code, message).MarshalJSON()
	if err != nil {
		panic(err) // strings always encode
	}
	return prepared(&Refusal{Status: status, Code: code, Message: message, outcome: outcome, header: header}, body)
}

// prepared completes a refusal with this JSON body.
func prepared(f *Refusal, body []byte) *Refusal {
	f.header = append(f.header, field{"Cache-Control", noStore}, field{"X-Content-Type-Options", "nosniff"})
	f.json = newForm(f.Status, contentType, body)
	return f
}

// methodNotAllowed refuses a method at a path that has others.
func methodNotAllowed(allow string) *Refusal {
	return fixed(http.StatusMethodNotAllowed, "method_not_allowed", "This method is not allowed here. Allowed: "+allow+".", NotFound, field{"Allow", allow})
}

// addressNotAllowed names the address of the client, so that its owner can
// compare it with those of the key. It may be unknown.
func addressNotAllowed(from netip.Addr) *Refusal {
	message := "The key may not be used from this address."
	if from.IsValid() {
		message = "The key may not be used from the address " + from.String() + "."
	}
	return fixed(http.StatusForbidden, "address_not_allowed", message, NotEntitled)
}

// insufficientScope names the ability that the token lacks (RFC 6750, 3.1).
func insufficientScope(e *policy.Endpoint) *Refusal {
	return fixed(http.StatusForbidden, "insufficient_scope", "The token does not have the ability "+e.Ability+".", NotEntitled,
		challenge(`, error="insufficient_scope", scope="`+e.Ability+`"`))
}

// The refusals for an upstream that did not answer.
var (
	refuseBadGateway = fixed(http.StatusBadGateway, "upstream_unreachable", unreachable, Failed)
	refuseNoUpstream = fixed(http.StatusServiceUnavailable, "upstream_unreachable", unreachable, Failed)
	refuseTimeout    = fixed(http.StatusGatewayTimeout, "upstream_timeout", "The service behind the gate did not answer in time. Try again.", Failed)
)

const unreachable = "The service behind the gate did not answer. Try again."

// unanswered returns the refusal for an upstream that did not answer; nil
// for any other status.
func unanswered(status int) *Refusal {
	switch status {
	case http.StatusBadGateway:
		return refuseBadGateway
	case http.StatusServiceUnavailable:
		return refuseNoUpstream
	case http.StatusGatewayTimeout:
		return refuseTimeout
	}
	return nil
}

// unansweredOpen has the refusals for open paths, by status. The error may
// be the operator's own, such as for maintenance.
var unansweredOpen = map[int]*Refusal{
	http.StatusBadGateway:         away(refuseBadGateway),
	http.StatusServiceUnavailable: away(refuseNoUpstream),
	http.StatusGatewayTimeout:     away(refuseTimeout),
}

func away(f *Refusal) *Refusal {
	return fixed(f.Status, f.Code, "This site cannot answer right now. Try again.", f.outcome)
}

// manyAttempts refuses a client that has sent too many passwords or tokens, for
// so long.
func manyAttempts(message string, outcome Outcome, wait time.Duration) *Refusal {
	seconds := max(1, wholeSeconds(wait))
	return fixed(http.StatusTooManyRequests, codeThrottled, message, outcome, retryAfter(strconv.FormatInt(seconds, 10)))
}
