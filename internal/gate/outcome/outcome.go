// Package outcome has the results of requests and of login attempts, for
// metrics.
package outcome

// Call is the result of a request.
type Call uint8

// The results of requests.
const (
	Admitted Call = iota
	Refunded
	Exhausted
	Reserved // calls in progress hold what is left of a quota
	RateLimited
	Throttled
	Unauthenticated
	NotEntitled
	NotFound
	Malformed
	Unavailable
	Failed    // the service did not answer, or with 5xx; an admitted call counts as both
	Preflight // a browser asked what a page may do

	Unsettled // the store did not take a refund, or the cost that an answer told

	// Of admitted calls whose answer is to tell the cost.
	CostUnknown // it does not
	CostAbove   // the cost is above the reservation

	Calls int = iota
)

// String returns the result as a label.
func (c Call) String() string {
	return [Calls]string{
		Admitted: "admitted", Refunded: "refunded", Exhausted: "exhausted", Reserved: "reserved", RateLimited: "rate_limited", Throttled: "throttled",
		Unauthenticated: "unauthenticated", NotEntitled: "not_entitled", NotFound: "not_found",
		Malformed: "malformed", Unavailable: "unavailable", Failed: "failed", Preflight: "preflight",
		CostUnknown: "cost_unknown", CostAbove: "cost_above", Unsettled: "unsettled",
	}[c]
}

// Login is the result of a login attempt.
type Login uint8

// The results of login attempts.
const (
	LoginSucceeded Login = iota
	LoginFailed
	LoginAbandoned // the answer says nothing about the password
	LoginThrottled
	LoginUnavailable // the limiter does not work, or the service failed

	Logins int = iota
)

// String returns the result as a label.
func (l Login) String() string {
	return [Logins]string{
		LoginSucceeded: "succeeded", LoginFailed: "failed", LoginAbandoned: "abandoned",
		LoginThrottled: "throttled", LoginUnavailable: "unavailable",
	}[l]
}
