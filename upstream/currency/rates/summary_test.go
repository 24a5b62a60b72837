package rates_test

import (
	"testing"

	"github.com/caddy-tollgate/tollgate/upstream/currency/civil"
	"github.com/caddy-tollgate/tollgate/upstream/currency/rates"
)

// Of days with the same extreme the first counts. A change can be negative.
func TestSummarize(t *testing.T) {
	t.Parallel()
	var points []rates.Extreme
	for i, text := range []string{"1.5", "2", "1", "2", "1", "1.2"} {
		rate, err := rates.ParseAmount(text)
		if err != nil {
			t.Fatal(err)
		}
		points = append(points, rates.Extreme{Date: date(t, "2026-01-01") + civil.Date(i), Rate: rate})
	}
	s := rates.Summarize(points)
	if s.Start.String() != "1.5" || s.End.String() != "1.2" || s.Change.String() != "-0.3" || s.Percent.String() != "-20" || s.Average.String() != "1.45" {
		t.Errorf("got %+v", s)
	}
	if s.High.Date.String() != "2026-01-02" || s.High.Rate.String() != "2" || s.Low.Date.String() != "2026-01-03" || s.Low.Rate.String() != "1" {
		t.Errorf("got %+v", s)
	}
	if s := rates.Summarize(points[:1]); s.Change.String() != "0" || s.Percent.String() != "0" || s.Average.String() != "1.5" {
		t.Errorf("of one rate: got %+v", s)
	}
}
