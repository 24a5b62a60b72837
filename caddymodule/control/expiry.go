package control

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/store"
	"github.com/caddy-tollgate/tollgate/caddymodule/token"
)

// maxLife bounds how far ahead anything ends. It keeps every time that is
// ever shown within the four-digit years of RFC 3339.
const maxLife = 100 * 365 * 24 * time.Hour

// expiry returns when the token that is asked for ends, or a zero time
// for a key that never does.
func (with *session) expiry(asked KeyRequest, key store.Key) (time.Time, error) {
	var ends time.Time
	switch {
	case asked.ExpiresAt != nil && asked.TTL != "":
		return ends, invalidExpiry("Give either expires_at or ttl, not both.")
	case asked.ExpiresAt != nil:
		ends = asked.ExpiresAt.UTC()
	case asked.TTL != "":
		ttl, err := parseDuration(asked.TTL)
		if err != nil {
			return ends, invalidExpiry("The ttl is not a duration such as 90m, 720h or 30d, at most 36500d.")
		}
		ends = key.CreatedAt.Add(ttl)
	case key.Kind == token.Login:
		return key.CreatedAt.Add(with.policy.LoginTTL), nil
	default:
		return ends, nil
	}
	if !ends.After(with.now) {
		return ends, invalidExpiry("The token must end in the future.")
	}
	if ends.After(with.now.Add(maxLife)) {
		return ends, invalidExpiry("The token must end within 100 years. Leave the expiry out for a key that never ends.")
	}
	return ends, nil
}

var errDuration = errors.New("not a duration from 0 to 100 years")

// parseDuration reads a duration as Go writes them, with days of 24 hours
// in front, as Caddy takes them: "30d", "1d12h", "720h".
func parseDuration(text string) (time.Duration, error) {
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
	// Both parts fit into the type, and days are bounded by their 16 bits.
	if d < 0 || d > maxLife || time.Duration(days)*24*time.Hour > maxLife-d {
		return 0, errDuration
	}
	return time.Duration(days)*24*time.Hour + d, nil
}
