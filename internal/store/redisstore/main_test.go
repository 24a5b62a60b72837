package redisstore_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// TestMain also checks that closed stores leave no goroutines. Closed clients
// of a cluster have some that sleep for five seconds.
func TestMain(m *testing.M) {
	code := m.Run()
	var leaked error
	for began := time.Now(); code == 0 && time.Since(began) < patience; {
		if leaked = goleak.Find(); leaked == nil {
			break
		}
	}
	if leaked != nil {
		fmt.Fprintln(os.Stderr, leaked)
		code = 1
	}
	os.Exit(code)
}
