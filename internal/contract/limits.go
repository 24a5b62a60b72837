package contract

// What a gate keeps, and for how many days: package store says more of each.
const (
	MaxLimit      = 1_000_000_000_000_000
	MaxLabel      = 200
	MaxOverrides  = 64
	MaxLiveLogins = 100
	MaxEndedKeys  = 100

	CountDays  = 400
	ReportDays = 400
	EndedDays  = 90
)

// Periods returns the names of all periods, the shortest first.
func Periods() []string { return []string{"second", "minute", "hour", "day", "month"} }
