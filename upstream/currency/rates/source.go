package rates

import "strings"

// Source is the source of values. Sources combine by |: a parity through a
// base has the bits of the base's value, too.
type Source uint8

// The sources, the best first.
const (
	// SourceECB is the European Central Bank's euro reference rates.
	SourceECB Source = 1 << iota
	// SourceParity is a fixed parity with an authority: see Parity.
	SourceParity
	// SourceIndicative is the embedded market rates: see Indicative.
	SourceIndicative

	// AllSources are all of them.
	AllSources = SourceECB | SourceParity | SourceIndicative
)

// SourceNames are the names of the sources, the best first.
var SourceNames = [...]string{"ECB", "parity", "indicative"}

// String returns the names of the sources, joined by +.
func (s Source) String() string {
	names := make([]string, 0, len(SourceNames))
	for i, name := range SourceNames {
		if s&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, "+")
}
