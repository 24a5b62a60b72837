package policy

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/calendar"
)

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
		v, err = calendar.ParseDuration(text)
	}
	if err == nil {
		*d = Duration(v)
	}
	return err
}
