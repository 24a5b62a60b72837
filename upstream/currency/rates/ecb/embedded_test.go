package ecb

import (
	"testing"

	"github.com/caddy-tollgate/tollgate/upstream/currency/rates"
)

func embedded(t *testing.T) *rates.Dataset {
	t.Helper()
	data, err := Embedded()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// The guards believe every value of the embedded file: the bank can publish
// the same file again.
func TestGuardsBelieveTheEmbeddedFile(t *testing.T) {
	t.Parallel()
	data := embedded(t)
	if got, waiting := believe(data); got != data || len(waiting) != 0 {
		t.Errorf("%d of %d days are believed, %v waits", got.Days(), data.Days(), waiting)
	}
	records, err := parse(history)
	if err != nil {
		t.Fatal(err)
	}
	quotes, report, err := screen(records, data, data.Newest())
	if err != nil || report.Accepted != len(records) || report.Dropped() != 0 {
		t.Errorf("got %+v for %d values, %v", report, len(records), err)
	}
	for _, q := range quotes {
		if q.Value != valueOn(data, q.Day, q.Code) {
			t.Fatalf("the embedded rates lack %s on %s: %s", q.Code, q.Day, q.Value)
		}
	}
}
