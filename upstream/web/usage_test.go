package web

import (
	"testing"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
)

func TestMeters(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		used, limit int64
		state       string
		percent     int
	}{
		{0, 1000, "ok", 0}, {799, 1000, "ok", 79}, {800, 1000, "near", 80}, {999, 1000, "near", 99},
		{1000, 1000, "full", 100}, {0, 0, "full", 100}, {70, 50, "full", 100}, // after a change to a smaller plan
		{1, 1_000_000_000_000_000, "ok", 0},
	} {
		m := newMeter(api.UsageEndpoint{Used: c.used, Limit: &c.limit, Remaining: new(max(0, c.limit-c.used))})
		if m.State != c.state || m.Percent != c.percent {
			t.Errorf("%d of %d: got %s at %d %%, want %s at %d %%", c.used, c.limit, m.State, m.Percent, c.state, c.percent)
		}
	}
	if m := newMeter(api.UsageEndpoint{Used: 12345}); m.State != "unlimited" || m.Used != "12,345" {
		t.Errorf("unlimited: got %+v", m)
	}
}
