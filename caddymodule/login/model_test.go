package login_test

import (
	"context"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/caddy-tollgate/tollgate/caddymodule/login"
	"github.com/caddy-tollgate/tollgate/caddymodule/login/logintest"
)

func TestLocalAgainstModel(t *testing.T) {
	t.Parallel()
	logintest.CheckModel(t, func(*rapid.T) logintest.Setup {
		disk := newDisk()
		local := login.NewLocal(disk)
		return logintest.Setup{
			Next: func() login.Limiter { return local },
			Restart: func(now time.Time) error {
				local = login.NewLocal(disk)
				return local.Restore(context.Background(), now)
			},
			Tolerance: login.Tolerance,
		}
	})
}

// Attempts go to one of three gates.
func TestSharedAgainstModel(t *testing.T) {
	t.Parallel()
	logintest.CheckModel(t, func(t *rapid.T) logintest.Setup {
		cells := new(logintest.Cells)
		gates := []*login.Shared{newShared(cells), newShared(cells), newShared(cells)}
		return logintest.Setup{
			Next:     func() login.Limiter { return rapid.SampledFrom(gates).Draw(t, "gate") },
			SetClock: cells.SetClock,
		}
	})
}
