package login_test

import (
	"context"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/caddy-tollgate/tollgate/internal/login"
	"github.com/caddy-tollgate/tollgate/internal/login/logintest"
)

func TestMemoryAgainstModel(t *testing.T) {
	t.Parallel()
	logintest.CheckModel(t, func(*rapid.T) logintest.Setup {
		disk, now := newDisk(), time.Time{}
		clock := func() time.Time { return now }
		memory := login.NewMemory(clock, disk)
		return logintest.Setup{
			Next:     func() *login.Limiter { return login.New(memory) },
			SetClock: func(to time.Time) { now = to },
			Restart: func() error {
				memory = login.NewMemory(clock, disk)
				return memory.Restore(context.Background())
			},
		}
	})
}

// Attempts go to one of three gates.
func TestSharedAgainstModel(t *testing.T) {
	t.Parallel()
	logintest.CheckModel(t, func(t *rapid.T) logintest.Setup {
		cells := &logintest.Clock{Cells: login.NewMemory(time.Now, nil)}
		gates := []*login.Limiter{newShared(cells), newShared(cells), newShared(cells)}
		return logintest.Setup{
			Next:      func() *login.Limiter { return rapid.SampledFrom(gates).Draw(t, "gate") },
			SetClock:  cells.SetClock,
			StepsBack: true,
		}
	})
}
