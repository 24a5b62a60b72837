package gate_test

import (
	"testing"

	"go.uber.org/goleak"
)

// TestMain wants every goroutine ended that a test began.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
