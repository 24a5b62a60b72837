package api

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
