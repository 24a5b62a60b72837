package policy

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"
)

// MaxDuration is the longest duration: 100 years of 365 days. With it, no
// time exceeds the four-digit years of RFC 3339.
const MaxDuration = 100 * 365 * 24 * time.Hour

// Duration is a time.Duration that JSON writes as Go does: "1h30m". JSON
// reads the same, also with days in front, or a number of nanoseconds.
type Duration time.Duration

// MarshalJSON writes the duration as a string.
func (d Duration) MarshalJSON() ([]byte, error) {
	return json.Marshal(time.Duration(d).String())
}

// UnmarshalJSON reads a string or a number of nanoseconds.
func (d *Duration) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] != '"' {
		return json.Unmarshal(b, (*int64)(d))
	}
	var text string
	if err := json.Unmarshal(b, &text); err != nil {
		return err
	}
	v, err := time.ParseDuration(text)
	if strings.Contains(text, "d") {
		v, err = ParseDuration(text)
	}
	if err == nil {
		*d = Duration(v)
	}
	return err
}

var errDuration = errors.New("not a duration from 0 to 100 years")

// ParseDuration reads a duration from 0 to MaxDuration in Go's syntax, also
// with days of 24 hours in front: "30d", "1d12h", "720h".
func ParseDuration(text string) (time.Duration, error) {
	var days int64
	rest := text
	if head, tail, found := strings.Cut(text, "d"); found {
		n, err := strconv.ParseUint(head, 10, 16)
		if err != nil {
			return 0, errDuration
		}
		days, rest = int64(n), tail
	}
	var d time.Duration
	if rest != "" || rest == text {
		var err error
		if d, err = time.ParseDuration(rest); err != nil {
			return 0, errDuration
		}
	}
	// Neither part overflows: days have 16 bits.
	if d < 0 || d > MaxDuration || time.Duration(days)*24*time.Hour > MaxDuration-d {
		return 0, errDuration
	}
	return time.Duration(days)*24*time.Hour + d, nil
}
