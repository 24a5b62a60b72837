package redisstore_test

import (
	"testing"

	"go.uber.org/goleak"
)

// TestMain also checks that closed stores leave no goroutines.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
