package gate

// Outcome is the result of a request, for metrics.
type Outcome uint8

// The outcomes.
const (
	Admitted Outcome = iota
	Refunded
	Exhausted
	RateLimited
	Throttled
	Unauthenticated
	NotEntitled
	NotFound
	Malformed
	Unavailable
	Failed
	Preflight     // a browser asked what a page may do, see preflight
	Outcomes  int = iota
)

var outcomes = [Outcomes]string{
	Admitted: "admitted", Refunded: "refunded", Exhausted: "exhausted", RateLimited: "rate_limited", Throttled: "throttled",
	Unauthenticated: "unauthenticated", NotEntitled: "not_entitled", NotFound: "not_found",
	Malformed: "malformed", Unavailable: "unavailable", Failed: "failed", Preflight: "preflight",
}

// String returns the outcome as a label.
func (o Outcome) String() string { return outcomes[o] }

// LoginOutcome is the result of a login attempt, for metrics.
type LoginOutcome uint8

// The outcomes of login attempts.
const (
	LoginSucceeded LoginOutcome = iota
	LoginFailed
	LoginAbandoned // the answer says nothing about the password
	LoginThrottled
	LoginUnavailable     // the limiter does not work
	LoginOutcomes    int = iota
)

var loginOutcomes = [LoginOutcomes]string{
	LoginSucceeded: "succeeded", LoginFailed: "failed", LoginAbandoned: "abandoned",
	LoginThrottled: "throttled", LoginUnavailable: "unavailable",
}

// String returns the outcome as a label.
func (o LoginOutcome) String() string { return loginOutcomes[o] }
