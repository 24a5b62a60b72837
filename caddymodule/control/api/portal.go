package api

import (
	"net/http"
	"time"
)

// Portal is a link that opens the web pages of an account once.
type Portal struct {
	URL       string    `json:"url" doc:"The link. It works once. Do not log or store it."`
	ExpiresAt time.Time `json:"expires_at" doc:"When the link expires: 5 minutes after it was made."`
}

// CreatePortalLink makes a link.
var CreatePortalLink = Operation[OfAccount, Portal]{
	ID: "create-portal-link", Method: http.MethodPost, Path: accountPath + "/portal", Tag: "accounts", Status: http.StatusCreated,
	Summary: "Make a link that opens the web pages of an account",
	Description: "It signs a person in to Settings and My usage of this account, without an e-mail and a password. It works once, for 5 minutes. " +
		"Send it only to a person who may see the account, for example as the redirect of a page that needs a sign-in.",
	Errors: []int{http.StatusForbidden, http.StatusConflict},
}
