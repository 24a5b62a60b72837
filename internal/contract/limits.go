package contract

// What a gate keeps, and for how many days: package store says more of each.
const (
	MaxLimit      = 1_000_000_000_000_000
	MaxLabel      = 200
	MaxOverrides  = 64
	MaxLiveLogins = 100
	MaxEndedKeys  = 100

	MaxConcurrent = 1_000_000

	CountDays  = 400
	ReportDays = 400
	EndedDays  = 90
)

// Concurrent is the name of the period of a limit of calls at once.
const Concurrent = "concurrent"

// Periods returns the names of all periods, the shortest first, without Concurrent.
func Periods() []string { return []string{"second", "minute", "hour", "day", "week", "month", "total"} }
