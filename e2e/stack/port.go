package stack

import (
	"strconv"
	"testing"

	"github.com/caddy-tollgate/tollgate/tools/freeport"
)

// FreePorts returns n unused ports. No other test gets them until this test
// ends.
func FreePorts(t testing.TB, n int) []string {
	t.Helper()
	ports := make([]string, n)
	for i := range ports {
		port, err := freeport.New()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { port.Release() })
		ports[i] = strconv.Itoa(port.Number)
	}
	return ports
}
