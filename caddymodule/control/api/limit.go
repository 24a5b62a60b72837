package api

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/contract"
)

// All is the Endpoint of a limit of all endpoints together.
const All = "all"

// MaxLimit is the largest limit.
const MaxLimit = contract.MaxLimit

// Periods that are no paces.
const (
	Day   = "day"
	Week  = "week"
	Month = "month"
	Total = "total"
	// Concurrent is none: its limit bounds the calls that run at once.
	Concurrent = contract.Concurrent
)

// Periods returns all periods, the shortest first, without Concurrent.
func Periods() []string { return contract.Periods() }

// IsQuota tells whether a limit of this period is a number of calls to use up. A
// pace is refilled all the time, and Concurrent is of calls at once.
func IsQuota(period string) bool {
	return slices.Contains([]string{Day, Week, Month, Total}, period)
}

// Per returns a period in words, such as "an hour" and "in total".
func Per(period string) string {
	switch period {
	case "hour":
		return "an hour"
	case Total:
		return "in total"
	case Concurrent:
		return "at once"
	}
	return "a " + period
}

// Limit bounds the cost of the calls to one endpoint, or to all.
type Limit struct {
	Endpoint string `json:"endpoint" minLength:"1" maxLength:"64" doc:"The endpoint's name, or all for all endpoints together."`
	Period   string `json:"period" enum:"second,minute,hour,day,week,month,total" doc:"A day, a week or a month, a total, which does not renew, or a pace: a token bucket that is refilled evenly over the period."`
	Limit    int64  `json:"limit" minimum:"0" maximum:"1000000000000000" doc:"The calls that are admitted. A pace is at least 1."`
}

// PlanLimit is a limit of a plan.
type PlanLimit struct {
	Endpoint string `json:"endpoint" doc:"The endpoint's name, or all for all endpoints together."`
	Period   string `json:"period" enum:"second,minute,hour,day,week,month,total,concurrent" doc:"As in overrides, or concurrent for calls at once."`
	Limit    int64  `json:"limit" doc:"The calls that are admitted, or included in a soft limit."`

	Soft  int64 `json:"soft,omitzero" doc:"From how many calls on a soft limit refuses: calls above limit pass, and are overage in bills."`
	Calls bool  `json:"calls,omitzero" doc:"Whether each call counts 1, whatever it costs."`
}

// Override is a limit of one account that replaces the limit of its plan with
// the same endpoint and period, or adds one. It opens no endpoint.
type Override struct {
	Endpoint  string     `json:"endpoint" doc:"The endpoint's name, or all for all endpoints together."`
	Period    string     `json:"period" enum:"second,minute,hour,day,week,month,total"`
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
	Period   string `path:"period" enum:"second,minute,hour,day,week,month,total" doc:"The limit's period."`
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
