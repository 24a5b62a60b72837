package badgerstore_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/caddy-tollgate/tollgate/internal/login"
	"github.com/caddy-tollgate/tollgate/internal/login/logintest"
)

// TestAttemptsAgainstModel: login attempts that the store keeps over restarts
// of the limiter.
func TestAttemptsAgainstModel(t *testing.T) {
	s := open(t, t.TempDir())
	logintest.CheckModel(t, func(rt *rapid.T) logintest.Setup {
		var rows []login.Row
		err := s.LoadAttempts(t.Context(), func(key, _ []byte) error {
			rows = append(rows, login.Row{Key: append([]byte(nil), key...)})
			return nil
		})
		if err != nil {
			rt.Fatal(err)
		}
		if err := s.Save(t.Context(), rows); err != nil {
			rt.Fatal(err)
		}
		cells := &logintest.Clock{Cells: login.NewMemory(time.Now, s)}
		return logintest.Setup{
			Next:     func() *login.Limiter { return login.New(cells) },
			SetClock: cells.SetClock,
			Restart: func() error {
				memory := login.NewMemory(time.Now, s)
				cells.Cells = memory
				return memory.Restore(t.Context())
			},
			StepsBack: true,
		}
	})
}
