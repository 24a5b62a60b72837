package control

import (
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/calendar"
)

// expiry returns when a key expires that has a ttl since a time or an
// explicit expiry: a zero time for never, if neither is set.
func (with *session) expiry(explicit *time.Time, ttl string, since time.Time) (time.Time, error) {
	switch {
	case explicit != nil && ttl != "":
		return time.Time{}, errTwoExpiries
	case ttl != "":
		lifetime, err := calendar.ParseDuration(ttl)
		if err != nil {
			return time.Time{}, invalidExpiry("The ttl is not a duration such as 90m, 720h or 30d, at most 36500d.")
		}
		return with.checkExpiry(since.Add(lifetime))
	case explicit != nil:
		return with.checkExpiry(*explicit)
	}
	return time.Time{}, nil
}

// checkExpiry returns a time in UTC if it is in the future.
func (with *session) checkExpiry(ends time.Time) (time.Time, error) {
	switch {
	case !ends.After(with.now):
		return ends, invalidExpiry("The expiry must be in the future.")
	case ends.After(with.now.Add(calendar.MaxDuration)):
		return ends, invalidExpiry("The expiry must be within 100 years. Omit it for no expiry.")
	}
	return ends.UTC(), nil
}
