package badgerstore_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// child names the environment variable that turns this test binary into a
// process that a test can kill, and says what it does.
const child = "BADGERSTORE_TEST_CHILD"

// TestMain also checks that closed stores leave no goroutines.
func TestMain(m *testing.M) {
	if task := os.Getenv(child); task != "" {
		runChild(task, os.Args[len(os.Args)-1])
	}
	goleak.VerifyTestMain(m)
}
