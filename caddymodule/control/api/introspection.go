package api

import "net/http"

// IntrospectionRequest is the form of a token introspection (RFC 7662).
type IntrospectionRequest struct {
	Token         string `json:"token" doc:"The token."`
	TokenTypeHint string `json:"token_type_hint,omitempty" doc:"Ignored."`
	ClientIP      string `json:"client_ip,omitempty" doc:"The address of the client that sent the token. Without it, a key with addresses is inactive."`
}

// Introspection is the answer to a token introspection. A token that is not
// active has no other member.
type Introspection struct {
	Active    bool    `json:"active" doc:"Whether the gate accepts the token now."`
	Scope     *string `json:"scope,omitempty" doc:"The abilities that the token and the plan have in common, separated by spaces."`
	Sub       string  `json:"sub,omitempty" doc:"The account's id."`
	ClientID  string  `json:"client_id,omitempty" doc:"The key's id."`
	Exp       int64   `json:"exp,omitempty" doc:"When the token expires, in seconds since 1970. Absent if it never does."`
	Iat       int64   `json:"iat,omitempty" doc:"When the key was created or imported, in seconds since 1970."`
	TokenType string  `json:"token_type,omitempty" doc:"Bearer."`
	Plan      string  `json:"plan,omitempty" doc:"The account's plan."`
}

// Introspect tells what a token may do.
var Introspect = Operation[IntrospectionRequest, Introspection]{
	ID: "introspect", Method: http.MethodPost, Path: "/tollgate/introspect", Tag: "introspection",
	Summary: "Introspect a token (RFC 7662)",
	Description: "Only on the control listener, and only with introspection_secret, which opens nothing else. " +
		"The answer is {\"active\":false} for every token that the gate would refuse. It counts nothing.",
	Errors: []int{
		http.StatusBadRequest, http.StatusUnauthorized, http.StatusNotFound, http.StatusRequestTimeout, http.StatusRequestEntityTooLarge,
		http.StatusUnsupportedMediaType, http.StatusServiceUnavailable,
	},
}
