package api

import "net/http"

// Census is what all accounts need of a configuration, by the names that the
// store has: of a renamed endpoint, the oldest one.
type Census struct {
	Plans     map[string]int64 `json:"plans" nullable:"false" doc:"The number of accounts on each plan."`
	Then      map[string]int64 `json:"then,omitempty" doc:"The number of accounts that get each plan when theirs ends."`
	Abilities map[string]int64 `json:"abilities" nullable:"false" doc:"The number of live keys with each ability."`
	Endpoints map[string]int64 `json:"endpoints" nullable:"false" doc:"The calls of this month to each endpoint, by their cost."`
	Timezone  string           `json:"timezone" doc:"The IANA zone whose days the counts are of. Empty if it is not known."`
}

// ShowCensus shows what accounts need of a configuration.
var ShowCensus = Operation[None, Census]{
	ID: "show-census", Method: http.MethodGet, Path: "/tollgate/census", Tag: "plans",
	Summary:     "Show what all accounts need of a configuration",
	Description: "The names of plans, abilities, endpoints and the time zone that the store has. It reads all accounts. The command caddy tollgate check compares them with a configuration.",
}
