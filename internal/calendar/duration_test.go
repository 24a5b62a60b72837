package calendar_test

import (
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/calendar"
)

func TestParseDuration(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"0s": 0, "0d": 0, "90m": 90 * time.Minute, "1h30m": 90 * time.Minute, "1d": 24 * time.Hour, "1d12h": 36 * time.Hour, "36500d": calendar.MaxDuration,
	} {
		if got, err := calendar.ParseDuration(text); err != nil || got != want {
			t.Errorf("%q: got %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "d", "1", "-1d", "+1d", "1.5d", "1d1d", "1d-1h", "1 d", "30days", "36500d1ns", "65535d", "65536d", "-1ns", "999999h999999h"} {
		if got, err := calendar.ParseDuration(text); err == nil {
			t.Errorf("%q: got %v", text, got)
		}
	}
}
