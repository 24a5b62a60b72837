package login_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/login"
)

// Attempts that succeed at the same instant never leave more than both logs.
func TestParallelSuccesses(t *testing.T) {
	t.Parallel()
	eachLimiter(t, login.Limits{}, func(t *testing.T, l *bench) {
		var mu sync.Mutex
		admitted := 0
		var group sync.WaitGroup
		for worker := range 5 {
			group.Go(func() {
				for range 10 {
					attempt, _ := l.try("192.0.2.1", fmt.Sprint("person", worker))
					if attempt == nil {
						continue
					}
					if err := attempt.Succeeded(t.Context()); err != nil {
						t.Errorf("Succeeded: %v", err)
					}
					mu.Lock()
					admitted++
					mu.Unlock()
				}
			})
		}
		group.Wait()
		if admitted > 25 {
			t.Errorf("got %d attempts in a minute, want at most 25", admitted)
		}
		for admitted < 25 {
			l.succeed("192.0.2.1", "person0")
			admitted++
		}
		l.refuse("192.0.2.1", "person0", time.Minute)
	})
}
