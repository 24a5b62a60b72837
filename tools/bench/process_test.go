package main

import (
	"os"
	"testing"
)

// The values of this process are not zero and are in bytes.
func TestUsage(t *testing.T) {
	t.Parallel()
	_, m, err := usageOf(os.Getpid())
	if err != nil || min(m.resident, m.proportional, m.anonymous) < 1<<20 || m.anonymous > m.resident {
		t.Errorf("got %+v, %v", m, err)
	}
	if _, _, err := usageOf(-1); err == nil {
		t.Error("process -1: got no error")
	}
}
