package control

import (
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/policy"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
	"github.com/caddy-tollgate/tollgate/caddymodule/token"
)

// expiry returns when the token that is asked for ends, or a zero time
// for a key that never does.
func (with *session) expiry(asked api.KeyRequest, key store.Key) (time.Time, error) {
	var ends time.Time
	switch {
	case asked.ExpiresAt != nil && asked.TTL != "":
		return ends, invalidExpiry("Give either expires_at or ttl, not both.")
	case asked.ExpiresAt != nil:
		ends = asked.ExpiresAt.UTC()
	case asked.TTL != "":
		ttl, err := policy.ParseDuration(asked.TTL)
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
	if ends.After(with.now.Add(policy.MaxDuration)) {
		return ends, invalidExpiry("The token must end within 100 years. Leave the expiry out for a key that never ends.")
	}
	return ends, nil
}
