package api

import (
	"fmt"
	"net/http"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/contract"
)

// All is the Endpoint of a limit of all endpoints together.
const All = "all"

// MaxLimit is the largest limit.
const MaxLimit = contract.MaxLimit

// The periods of the calendar. All others are paces.
const (
	Day   = "day"
	Month = "month"
)

// Periods returns all periods, the shortest first.
func Periods() []string { return contract.Periods() }

// IsPace tells whether a limit of this period is a pace: it is refilled all the
// time and has no reset.
func IsPace(period string) bool { return period != Day && period != Month }

// Per returns a period with its article, such as "an hour".
func Per(period string) string {
	if period == "hour" {
		return "an hour"
	}
	return "a " + period
}

// Limit bounds the cost of the calls to one endpoint, or to all.
type Limit struct {
	Endpoint string `json:"endpoint" minLength:"1" maxLength:"64" doc:"The endpoint's name, or all for all endpoints together."`
	Period   string `json:"period" enum:"second,minute,hour,day,month" doc:"A day or a month of the calendar, or a pace: a token bucket that is refilled evenly over the period."`
	Limit    int64  `json:"limit" minimum:"0" maximum:"1000000000000000" doc:"The calls that are admitted. A pace is at least 1."`
}

// Override is a limit of one account that replaces the limit of its plan with
// the same endpoint and period, or adds one. It opens no endpoint.
type Override struct {
	Endpoint  string     `json:"endpoint" doc:"The endpoint's name, or all for all endpoints together."`
	Period    string     `json:"period" enum:"second,minute,hour,day,month"`
	Limit     *int64     `json:"limit" doc:"The calls that are admitted; null if unlimited."`
	ExpiresAt *time.Time `json:"expires_at" doc:"When the override ends; null if never."`
	Reason    string     `json:"reason" doc:"Why there is an override, for the operator."`
	CreatedAt time.Time  `json:"created_at"`
}

// OverrideList is the overrides of one account.
type OverrideList struct {
	Limits []Override `json:"limits" nullable:"false" doc:"The overrides that have not ended."`
}

// OverrideRequest describes an override.
type OverrideRequest struct {
	Limit     *int64     `json:"limit" required:"true" nullable:"true" minimum:"0" maximum:"1000000000000000" doc:"The calls that are admitted; null for unlimited."`
	ExpiresAt *time.Time `json:"expires_at,omitempty" nullable:"true" doc:"When the override ends. Default: never."`
	Reason    string     `json:"reason,omitempty" maxLength:"200" doc:"Why there is an override, for the operator."`
}

// OfLimit is the path of an override.
type OfLimit struct {
	OfAccount
	Endpoint string `path:"endpoint" doc:"The endpoint's name, or all for all endpoints together."`
	Period   string `path:"period" enum:"second,minute,hour,day,month" doc:"The limit's period."`
}

// OverridePut is a change of an override.
type OverridePut struct {
	OfLimit
	Body OverrideRequest
}

const limitsPath = accountPath + "/limits"

// The operations of overrides.
var (
	ListLimits = Operation[OfAccount, OverrideList]{
		ID: "list-limits", Method: http.MethodGet, Path: limitsPath, Tag: "limits",
		Summary:     "List the overrides of an account",
		Description: "Oldest first, without those that have ended.",
	}
	PutLimit = Operation[OverridePut, Override]{
		ID: "put-limit", Method: http.MethodPut, Path: limitsPath + "/{endpoint}/{period}", Tag: "limits",
		Summary: "Override a limit of the account's plan, or add one",
		Description: "Replaces the override with the same endpoint and period. It applies to the account's next call and ends by itself. " +
			"It gives no access to an endpoint that the plan does not list. " +
			fmt.Sprintf("An account has at most %d overrides.", contract.MaxOverrides),
		Errors: []int{http.StatusConflict},
	}
	DeleteLimit = Operation[OfLimit, None]{
		ID: "delete-limit", Method: http.MethodDelete, Path: limitsPath + "/{endpoint}/{period}", Tag: "limits",
		Summary:     "Remove an override",
		Description: "The limit of the plan applies to the next call.",
	}
)
