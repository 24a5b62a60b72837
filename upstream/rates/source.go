package rates

// Source is the source of values. Sources combine by |.
type Source uint8

const (
	// SourceSnapshot is the embedded snapshot: indicative market rates.
	SourceSnapshot Source = 1 << iota
	// SourceECB is the European Central Bank's euro reference rates.
	SourceECB
)

// String returns "snapshot", "ECB", or "ECB+snapshot" for an answer that
// needed both.
func (s Source) String() string {
	switch s {
	case SourceSnapshot:
		return "snapshot"
	case SourceECB:
		return "ECB"
	case SourceECB | SourceSnapshot:
		return "ECB+snapshot"
	}
	return ""
}
