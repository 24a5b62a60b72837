package api

import (
	"net/http"
	"time"
)

// TopUpRequest adds calls to a total of an account.
type TopUpRequest struct {
	Endpoint  string     `json:"endpoint" maxLength:"64" doc:"The endpoint's name, or all for all endpoints together."`
	Calls     int64      `json:"calls" minimum:"1" maximum:"1000000000000000" doc:"How many calls to add, by their cost."`
	ID        string     `json:"id" maxLength:"64" pattern:"^[A-Za-z0-9._@-]+$" doc:"Names the top-up. A request that is repeated with the same id adds nothing again."`
	ExpiresAt *time.Time `json:"expires_at,omitempty" nullable:"true" doc:"When what is left of it is gone. Default: never."`
}

// TopUp is calls that were added to a total.
type TopUp struct {
	ID        string     `json:"id" doc:"The id of the top-up."`
	Account   string     `json:"account" doc:"The account's id."`
	Endpoint  string     `json:"endpoint" doc:"The endpoint's name, or all."`
	Calls     int64      `json:"calls" doc:"How many calls were added."`
	ExpiresAt *time.Time `json:"expires_at,omitempty" doc:"When what is left of it is gone. Not present for never."`
	Remaining *int64     `json:"remaining,omitempty" doc:"What the account has left of the total. Not present if its plan has no such total any more."`
}

// TopUpCreation adds calls.
type TopUpCreation struct {
	OfAccount
	Body TopUpRequest
}

// TopUpUsage adds calls to a total.
var TopUpUsage = Operation[TopUpCreation, TopUp]{
	ID: "top-up-usage", Method: http.MethodPost, Path: accountPath + "/topups", Tag: "usage", Status: http.StatusCreated,
	Summary: "Add calls to a total",
	Description: "The calls are added to what the account's plan gives in total. Of several top-ups, calls use the one that ends first, and then the plan's number. " +
		"They are kept for good, also if the account is on another plan meanwhile. A request that is repeated with the same id adds nothing again.",
	Errors: []int{http.StatusNotFound, http.StatusConflict},
}
