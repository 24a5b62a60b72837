package throttle_test

import (
	"errors"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/throttle"
)

func TestLimitsValidate(t *testing.T) {
	t.Parallel()
	const year = 366 * 24 * time.Hour
	for _, test := range []struct {
		name   string
		limits throttle.Limits
		ok     bool
	}{
		{"defaults", throttle.Limits{}, true},
		{"least", throttle.Limits{PerClient: 1, Window: time.Second, Free: 1, FirstWait: time.Second, MaxWait: time.Second, Forget: time.Second, KnownFor: time.Second}, true},
		{"most", throttle.Limits{PerClient: 1000, Window: 24 * time.Hour, Free: 256, FirstWait: 24 * time.Hour, MaxWait: 24 * time.Hour, Forget: year, KnownFor: year}, true},
		{"negative attempts", throttle.Limits{PerClient: -1}, false},
		{"many attempts", throttle.Limits{PerClient: 1001}, false},
		{"negative window", throttle.Limits{Window: -time.Minute}, false},
		{"long window", throttle.Limits{Window: 25 * time.Hour}, false},
		{"negative failures", throttle.Limits{Free: -1}, false},
		{"many failures", throttle.Limits{Free: 257}, false},
		{"short wait", throttle.Limits{FirstWait: time.Millisecond}, false},
		{"waits reversed", throttle.Limits{MaxWait: 10 * time.Second}, false},
		{"long wait", throttle.Limits{MaxWait: 25 * time.Hour, Forget: 26 * time.Hour}, false},
		{"forgotten while waiting", throttle.Limits{Forget: 10 * time.Minute}, false},
		{"never forgotten", throttle.Limits{Forget: year + 1}, false},
		{"known too long", throttle.Limits{KnownFor: year + 1}, false},
		{"known negative", throttle.Limits{KnownFor: -1}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			err := test.limits.Validate()
			if got := err == nil; got != test.ok {
				t.Fatalf("got error %v, want valid %v", err, test.ok)
			}
			if err != nil && !errors.Is(err, throttle.ErrLimits) {
				t.Fatalf("got %v, want it to wrap %v", err, throttle.ErrLimits)
			}
		})
	}
}
