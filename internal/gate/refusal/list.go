package refusal

import (
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/gate/outcome"
	"github.com/caddy-tollgate/tollgate/internal/store"
)

// The refusals that are the same for all requests.
var (
	BadPath = fixed(http.StatusBadRequest, "bad_path", "The path can be read in more than one way. Send it in its plain form.", outcome.Malformed)
	Upgrade = fixed(http.StatusBadRequest, "upgrade_not_allowed", "This endpoint does not switch protocols. Send the request without Upgrade.", outcome.Malformed)
	// OtherMethod is for a query that makes some services use another method.
	OtherMethod = fixed(http.StatusBadRequest, "invalid_request", "Send the method in the request line, and no parameter _method in the query.", outcome.Malformed)

	// InvalidToken is for tokens that are unknown, expired, revoked or of a
	// disabled account, so that a client cannot tell these cases apart.
	InvalidToken = fixed(http.StatusUnauthorized, "invalid_token", "The token is not valid. It may be mistyped, expired or revoked.", outcome.Unauthenticated, challenge(`, error="invalid_token"`))
	// EndedAccount is for an account that was found without a token.
	EndedAccount = fixed(http.StatusUnauthorized, "invalid_token", "The account is disabled or was deleted.", outcome.Unauthenticated, challenge(`, error="invalid_token"`))
	// NoBearer is for an Authorization without a Bearer token.
	NoBearer   = fixed(http.StatusUnauthorized, "unauthenticated", "The Authorization header has no Bearer token. Write the word Bearer and one space in front of the token.", outcome.Unauthenticated, challenge(""))
	ManyTokens = fixed(http.StatusBadRequest, "invalid_request", "Send exactly one token, in one header, and none in the query.", outcome.Malformed, challenge(`, error="invalid_request"`))

	OtherPlan   = fixed(http.StatusForbidden, "invalid_identity", "The user has none of the plans of this API.", outcome.NotEntitled)
	NoPlan      = fixed(http.StatusForbidden, "plan_required", "The account's plan has no access to the API.", outcome.NotEntitled)
	NotEntitled = fixed(http.StatusForbidden, "not_entitled", "The account's plan does not include this endpoint.", outcome.NotEntitled)

	// ManyAtOnce is for an address without a key.
	ManyAtOnce = complete(&Refusal{
		Status: http.StatusTooManyRequests, Code: "too_many_concurrent", Message: "Too many calls of this address at once. Try again in a second.",
		Outcome: outcome.RateLimited, RetryAfter: 1, fields: []field{{"X-Should-Retry", "true"}},
	}, "")

	Changed     = unavailable("The account is being changed right now. Try again in a few seconds.")
	Unavailable = unavailable("The service cannot check the request right now. Try again in a few seconds.")

	LoginBody     = fixed(http.StatusBadRequest, "invalid_request", "The body is not a valid login request: a JSON object or a form with email and password.", outcome.Malformed)
	LoginBodySize = fixed(http.StatusRequestEntityTooLarge, "body_too_large", "A login request has at most 4096 bytes.", outcome.Malformed)
	LoginType     = fixed(http.StatusUnsupportedMediaType, "unsupported_media_type", "Send the login request as application/json or as a form, in UTF-8 and without Content-Encoding.", outcome.Malformed)

	BrokenBody = fixed(http.StatusBadRequest, "invalid_request", "The request body cannot be read: it is malformed, incomplete or too slow.", outcome.Malformed)
	LongBody   = fixed(http.StatusRequestEntityTooLarge, "body_too_large", "The request body is too large.", outcome.Malformed)
	CostType   = fixed(http.StatusUnsupportedMediaType, "unsupported_media_type", "Send the request body as application/json in UTF-8, without Content-Encoding.", outcome.Malformed)

	// MixedBatch is for a JSON-RPC batch.
	MixedBatch = fixed(http.StatusBadRequest, "invalid_request", "All requests of a JSON-RPC batch must be for the same endpoint. Send them one by one.", outcome.Malformed)

	UnknownParameter = fixed(http.StatusBadRequest, "unknown_parameter", "The only query parameter here is days.", outcome.Malformed)
	InvalidDays      = fixed(http.StatusBadRequest, "invalid_request", "Send the query parameter days once, as a whole number from 1 to 90.", outcome.Malformed)
)

// Ended returns InvalidToken, or EndedAccount for an identity, with the reason in an
// error of the store, which clients do not see.
func Ended(err error, identity bool) *Refusal {
	ended, why := InvalidToken, store.WhyNoGrant(err)
	if identity {
		ended = EndedAccount
	}
	if why == "" {
		return ended
	}
	f := *ended
	f.Reason = why
	return &f
}

// IsInvalidToken tells whether f is InvalidToken or EndedAccount, with or without a
// reason.
func (f *Refusal) IsInvalidToken() bool { return f.Code == InvalidToken.Code }

const challengeHeader = "Www-Authenticate"

func challenge(parameters string) field {
	return field{challengeHeader, `Bearer realm="api"` + parameters}
}

func unavailable(message string) *Refusal {
	return complete(&Refusal{Status: http.StatusServiceUnavailable, Code: "unavailable", Message: message, Outcome: outcome.Unavailable, RetryAfter: 5}, "")
}

// NotFound refuses an unknown path. docs is the address of the documentation,
// or "".
func NotFound(docs string) *Refusal {
	const message = "There is nothing here."
	if docs == "" {
		return fixed(http.StatusNotFound, "not_found", message, outcome.NotFound)
	}
	f := fixed(http.StatusNotFound, "not_found", message+" The documentation of the API is at "+docs+".", outcome.NotFound,
		docsLink(docs))
	f.notice, f.docs = message, docs
	return f
}

func docsLink(docs string) field { return field{"Link", "<" + docs + `>; rel="service-doc"`} }

// MethodNotAllowed refuses a method at a path that has others.
func MethodNotAllowed(allow string) *Refusal {
	return fixed(http.StatusMethodNotAllowed, "method_not_allowed", "This method is not allowed here. Allowed: "+allow+".", outcome.NotFound, field{"Allow", allow})
}

// NoToken refuses a request without a token. tokenHeader is the second header
// for tokens, or "". basic tells whether a password can be a token. The page links
// to docs, the address of the documentation, or "".
func NoToken(tokenHeader string, basic bool, docs string) *Refusal {
	message := "Send an API key as a Bearer token in the Authorization header"
	if basic {
		message += ", or as the password of Basic authentication"
	}
	if tokenHeader != "" {
		message += ", or in the header " + tokenHeader
	}
	f := fixed(http.StatusUnauthorized, "unauthenticated", message+".", outcome.Unauthenticated, challenge(""))
	f.docs = docs
	return f
}

// OfferBasic returns a 401 that asks for Basic too. Basic is the first challenge
// of the only field: clients of container registries read one challenge of each
// field, prefer Bearer, and take its realm for the address of a token server.
func (f *Refusal) OfferBasic() *Refusal {
	offer := *f
	offer.fields = slices.Clone(f.fields)
	for i := range offer.fields {
		if field := &offer.fields[i]; field.name == challengeHeader {
			field.value = `Basic realm="api", ` + field.value
		}
	}
	return &offer
}

// Address refuses the address of a client. It names the address, so that the
// owner of the key can compare it with those of the key. It may be unknown.
func Address(from netip.Addr) *Refusal {
	message := "The key may not be used from this address."
	if from.IsValid() {
		message = "The key may not be used from the address " + from.String() + "."
	}
	return fixed(http.StatusForbidden, "address_not_allowed", message, outcome.NotEntitled)
}

// Scope names the ability that the token does not have (RFC 6750, 3.1).
func Scope(ability string) *Refusal {
	return fixed(http.StatusForbidden, "insufficient_scope", "The token does not have the ability "+ability+".", outcome.NotEntitled,
		challenge(`, error="insufficient_scope", scope="`+ability+`"`))
}

// CostBody refuses a body whose cost is not clear: it must have the member.
func CostBody(member string, maxNesting int) *Refusal {
	return unclear("one JSON object with the array "+strconv.Quote(member), maxNesting)
}

// BoundBody refuses a body that does not bound the cost: the members must be
// numbers.
func BoundBody(members []string, maxNesting int) *Refusal {
	return unclear("one JSON object, with whole numbers below 1000000000 in "+strings.Join(members, ", ")+" and n", maxNesting)
}

func unclear(form string, maxNesting int) *Refusal {
	return fixed(http.StatusBadRequest, "invalid_request", "The body must be "+form+
		", without duplicate names, names that differ in case only, invalid UTF-8, and more than "+strconv.Itoa(maxNesting)+" levels of objects and arrays.", outcome.Malformed)
}

// RPCBody refuses a body that is no JSON-RPC request, or that parsers could read
// differently.
func RPCBody(maxNesting int) *Refusal {
	return fixed(http.StatusBadRequest, "invalid_request", "The body must be one JSON-RPC request or a batch of them, without duplicate names, names that differ in case only, invalid UTF-8, and more than "+
		strconv.Itoa(maxNesting)+" levels of objects and arrays. A call of a tool must name it.", outcome.Malformed)
}

// MethodNotFound refuses a JSON-RPC request with this id, as JSON or nil, whose
// method or tool has no endpoint. It has the form of JSON-RPC too.
func MethodNotFound(id []byte) *Refusal {
	if id == nil {
		id = []byte("null")
	}
	return complete(&Refusal{Status: http.StatusNotFound, Code: "not_found", Message: "There is no such method or tool here.", Outcome: outcome.NotFound, isRPC: true},
		`,"jsonrpc":"2.0","id":`+string(id)+`,"error":{"code":-32601,"message":"Method not found: there is no such method or tool here."}`)
}

// CostBodySize refuses a body of more than maxSize bytes.
func CostBodySize(endpoint string, maxSize int64) *Refusal {
	return fixed(http.StatusRequestEntityTooLarge, "body_too_large", "The body of a request to "+endpoint+" must have at most "+strconv.FormatInt(maxSize, 10)+" bytes.", outcome.Malformed)
}

// codeThrottled is the code of one password or one unknown token too many. Its
// page has a text of its own.
const codeThrottled = "too_many_attempts"

// ManyLogins refuses a client that has sent too many passwords.
func ManyLogins(wait time.Duration) *Refusal {
	return throttled("Too many login attempts. Try again later.", outcome.Throttled, wait)
}

// ManyGuesses refuses a client that has sent too many unknown tokens.
func ManyGuesses(wait time.Duration) *Refusal {
	return throttled("Too many unknown tokens. Try again later.", outcome.Unauthenticated, wait)
}

func throttled(message string, result outcome.Call, wait time.Duration) *Refusal {
	return complete(&Refusal{Status: http.StatusTooManyRequests, Code: codeThrottled, Message: message, Outcome: result, RetryAfter: max(1, WholeSeconds(wait))}, "")
}

// Unanswered returns the refusal for a service that did not answer, by the
// status of the error; nil for other statuses.
func Unanswered(status int) *Refusal { return unanswered[status] }

const unreachable = "The service behind the gate did not answer. Try again."

var unanswered = map[int]*Refusal{
	http.StatusBadGateway:         fixed(http.StatusBadGateway, "upstream_unreachable", unreachable, outcome.Failed),
	http.StatusServiceUnavailable: fixed(http.StatusServiceUnavailable, "upstream_unreachable", unreachable, outcome.Failed),
	http.StatusGatewayTimeout:     fixed(http.StatusGatewayTimeout, "upstream_timeout", "The service behind the gate did not answer in time. Try again.", outcome.Failed),
}
