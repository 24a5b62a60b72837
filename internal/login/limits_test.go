package login_test

import (
	"errors"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/login"
)

func TestLimitsValidate(t *testing.T) {
	t.Parallel()
	const year = 366 * 24 * time.Hour
	for _, test := range []struct {
		name   string
		limits login.Limits
		ok     bool
	}{
		{"defaults", login.Limits{}, true},
		{"least", login.Limits{PerClient: 1, Window: time.Second, Free: 1, FirstWait: time.Second, MaxWait: time.Second, Forget: time.Second, KnownFor: time.Second}, true},
		{"most", login.Limits{PerClient: 1000, Window: 24 * time.Hour, Free: 256, FirstWait: 24 * time.Hour, MaxWait: 24 * time.Hour, Forget: year, KnownFor: year}, true},
		{"negative attempts", login.Limits{PerClient: -1}, false},
		{"negative window", login.Limits{Window: -time.Minute}, false},
		{"negative failures", login.Limits{Free: -1}, false},
		{"short wait", login.Limits{FirstWait: time.Millisecond}, false},
		{"waits reversed", login.Limits{MaxWait: 10 * time.Second}, false},
		{"long wait", login.Limits{MaxWait: 25 * time.Hour, Forget: 26 * time.Hour}, false},
		{"forgotten while waiting", login.Limits{Forget: 10 * time.Minute}, false},
		{"never forgotten", login.Limits{Forget: year + 1}, false},
		{"known too long", login.Limits{KnownFor: year + 1}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			err := test.limits.Validate()
			if got := err == nil; got != test.ok {
				t.Fatalf("got error %v, want valid %v", err, test.ok)
			}
			if err != nil && !errors.Is(err, login.ErrLimits) {
				t.Fatalf("got %v, want it to wrap %v", err, login.ErrLimits)
			}
		})
	}
}
