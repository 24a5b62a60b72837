package calendar

import (
	"errors"
	"strconv"
	"strings"
	"time"
)

// MaxDuration is the longest duration: 100 years of 365 days. With it, no
// time exceeds the four-digit years of RFC 3339.
const MaxDuration = 100 * 365 * 24 * time.Hour

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
