package login

import (
	"testing"
	"time"
)

func TestClock(t *testing.T) {
	t.Parallel()
	start := time.Unix(1_800_000_000, 0)
	for _, test := range []struct {
		name                    string
		readings                []time.Duration // after start
		wantInstant, wantOffset time.Duration
	}{
		{"goes on", []time.Duration{0, 5}, 5, 0},
		{"stops while readings are behind", []time.Duration{time.Second, 0}, time.Second, 0},
		{"stops for up to a minute", []time.Duration{time.Minute, 0}, time.Minute, 0},
		{"goes on after a larger step back", []time.Duration{time.Hour, 0, time.Second}, time.Hour + time.Second, time.Hour},
		{"after two steps back", []time.Duration{3 * time.Hour, 2 * time.Hour, 0}, 3 * time.Hour, 3 * time.Hour},
		{"many small steps add up to one", []time.Duration{100 * time.Second, 60 * time.Second, 30 * time.Second}, 100 * time.Second, 70 * time.Second},
		{"before 1970", []time.Duration{0, -100 * 365 * 24 * time.Hour}, 0, 1_800_000_000 * time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var c clock
			var instant int64
			for _, reading := range test.readings {
				instant, _ = c.at(start.Add(reading))
			}
			if got := time.Duration(instant - start.UnixNano()); got != test.wantInstant {
				t.Errorf("got instant %v after start, want %v", got, test.wantInstant)
			}
			if got := time.Duration(c.offset); got != test.wantOffset {
				t.Errorf("got offset %v, want %v", got, test.wantOffset)
			}
		})
	}
	t.Run("absurd reading", func(t *testing.T) {
		t.Parallel()
		var c clock
		c.at(time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC))
		before, _ := c.at(start)
		after, _ := c.at(start.Add(time.Hour))
		if got := time.Duration(after - before); got != time.Hour {
			t.Errorf("got %v passed after an absurd reading, want %v", got, time.Hour)
		}
		if got := c.wall(after); !got.Equal(start.Add(time.Hour)) {
			t.Errorf("got wall clock %v, want %v", got, start.Add(time.Hour))
		}
	})
}
