package control

import (
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/policy"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
	"github.com/caddy-tollgate/tollgate/caddymodule/token"
)

// expiry returns when the requested token expires, or a zero time for a key
// that never expires.
func (with *session) expiry(request api.KeyRequest, key store.Key) (time.Time, error) {
	var ends time.Time
	switch {
	case request.ExpiresAt != nil && request.TTL != "":
		return ends, invalidExpiry("Set either expires_at or ttl, not both.")
	case request.ExpiresAt != nil:
		ends = request.ExpiresAt.UTC()
	case request.TTL != "":
		ttl, err := policy.ParseDuration(request.TTL)
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
		return ends, invalidExpiry("The expiry must be in the future.")
	}
	if ends.After(with.now.Add(policy.MaxDuration)) {
		return ends, invalidExpiry("The expiry must be within 100 years. Omit it for a key that never expires.")
	}
	return ends, nil
}
