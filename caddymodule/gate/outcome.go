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
	Outcomes int = iota
)

var outcomes = [Outcomes]string{
	Admitted: "admitted", Refunded: "refunded", Exhausted: "exhausted", RateLimited: "rate_limited", Throttled: "throttled",
	Unauthenticated: "unauthenticated", NotEntitled: "not_entitled", NotFound: "not_found",
	Malformed: "malformed", Unavailable: "unavailable", Failed: "failed",
}

// String returns the outcome as a label.
func (o Outcome) String() string { return outcomes[o] }
