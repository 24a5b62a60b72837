package web

import (
	"testing"
	"time"
)

func TestMoments(t *testing.T) {
	t.Parallel()
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	c := clock{time.Date(2026, 11, 20, 1, 0, 0, 0, zone), zone}
	for _, want := range []struct {
		after time.Duration
		text  string
	}{
		{0, "just now"},
		{-45 * time.Second, "1 minute ago"},
		{-59 * time.Minute, "59 minutes ago"},
		{-23 * time.Hour, "23 hours ago"},
		{-24 * time.Hour, "yesterday"},
		{-26 * time.Hour, "2 days ago"}, // 23:00 of the day before yesterday
		{-7 * day, "13 Nov 2026"},
		{30 * time.Second, "in 1 minute"},
		{30 * time.Hour, "tomorrow"},
		{59 * day, "in 59 days"},
		{60 * day, "19 Jan 2027"},
	} {
		m := c.moment(c.now.Add(want.after))
		if m.Text != want.text {
			t.Errorf("%v: got %q, want %q", want.after, m.Text, want.text)
		}
	}
	m := c.moment(c.now)
	if m.Exact != "2026-11-20T00:00:00Z" || m.Full != "20 Nov 2026, 01:00:00 CET" {
		t.Errorf("got %+v", m)
	}
	for left, want := range map[time.Duration]string{
		-time.Second: "less than a minute", 59 * time.Second: "less than a minute", time.Minute: "1 min",
		61 * time.Minute: "1 h 1 min", 24*time.Hour - time.Second: "23 h 59 min",
	} {
		if got := c.countdown(c.now.Add(left)); got != want {
			t.Errorf("%v left: got %q, want %q", left, got, want)
		}
	}
}
