package ecb

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/caddy-tollgate/tollgate/upstream/currency/civil"
	"github.com/caddy-tollgate/tollgate/upstream/currency/rates"
)

var monday = civil.New(2026, 4, 13)

// held makes a dataset of one currency's values on following days.
func held(t interface {
	Helper()
	Fatal(...any)
}, values ...string) *rates.Dataset {
	t.Helper()
	var b rates.Builder
	for i, text := range values {
		value, err := rates.ParseValue(text)
		if err != nil {
			t.Fatal(err)
		}
		b.Set(monday+civil.Date(i), "USD", value, rates.SourceECB)
	}
	return b.Build()
}

// printed lists the values of a dataset with - for the days without.
func printed(data *rates.Dataset, days int) string {
	var list []string
	for i := range days {
		text := "-"
		if day, found := data.On(monday + civil.Date(i)); found {
			value, _ := day.Value("USD")
			text = value.String()
		}
		list = append(list, text)
	}
	return strings.Join(list, " ")
}

func TestBelieve(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, values, want string
		waiting            int
	}{
		{"steady", "1 1.1 1.2 1.1", "1 1.1 1.2 1.1", 0},
		{"half more is no jump", "1 1.5 1", "1 1.5 1", 0},
		{"a spike", "1 10 1.1", "1 - 1.1", 0},
		{"a jump of today", "1 1.1 10", "1 1.1 -", 1},
		{"a new level", "1 10 10.1 9.9 10", "1 10 10.1 9.9 10", 0},
		{"wild values", "1 10 100 1000 1.1", "1 - - - 1.1", 0},
		{"a level after a wild value", "1 100 10 10 10", "1 - 10 10 10", 0},
		{"down", "10 1 1 1", "10 1 1 1", 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			values := strings.Fields(test.values)
			got, waiting := believe(held(t, values...))
			if text := printed(got, len(values)); text != test.want || len(waiting) != test.waiting {
				t.Errorf("got %s and %d waiting, want %s and %d", text, len(waiting), test.want, test.waiting)
			}
		})
	}
}

// Whatever is published: nothing is served that was not, a served step of
// more than half was confirmed, and once settled the newest value
// is served.
func TestBelieveNeverServesASpike(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.SampledFrom([]string{"1", "1.1", "1.4", "3", "3.2", "0.1"}), 1, 20).Draw(t, "values")
		all := held(t, values...)
		served, waiting := believe(all)
		var before rates.Value
		for day := range served.All() {
			value, _ := day.Value("USD")
			original, _ := all.On(day.Date())
			if want, _ := original.Value("USD"); want != value {
				t.Fatalf("%s: got %s, want %s", day.Date(), value, want)
			}
			if !before.IsZero() && before.Jumps(value) {
				for i := range confirmations {
					if _, found := served.On(day.Date() + civil.Date(i)); !found {
						t.Fatalf("%s: a jump to %s that %d days confirm", day.Date(), value, i)
					}
				}
			}
			before = value
		}
		if len(waiting) == 0 && served.Newest() != all.Newest() {
			t.Fatalf("nothing waits, but the newest of %v is not served", values)
		}
	})
}

func TestScreen(t *testing.T) {
	t.Parallel()
	tests := []struct {
		text string
		want Report
	}{
		{"2026-04-13 USD 1.2", Report{Accepted: 1}},
		{"2026-04-13 USD 1.5", Report{Accepted: 1}}, // a correction
		{"2026-04-13 USD 11", Report{Contradicting: 1}},
		{"2026-04-14 USD 11", Report{Accepted: 1}}, // not known to be wrong yet
		{"2026-04-16 USD 1.1", Report{Future: 1}},
		{"2026-04-13 ZZZ 1.1", Report{Unknown: 1}},
		{"2026-04-13 EUR 1", Report{Unknown: 1}},
		{"2026-04-13 BGN 1.95583", Report{Unknown: 1}}, // ended
		{"2025-12-31 BGN 1.95583", Report{Accepted: 1}},
		{"2005-06-30 RON 3.6", Report{Unknown: 1}}, // not begun
		{"1999-01-04 USD 1.1789", Report{Accepted: 1}},
		{"1999-01-03 USD 1.1789", Report{Unknown: 1}}, // before the euro
		{"2026-04-13 JPY 0", Report{Invalid: 1}},
		{"2026-04-13 JPY -186", Report{Invalid: 1}},
		{"2026-04-13 JPY 0.00001", Report{Invalid: 1}},
		{"2026-04-13 JPY 100000001", Report{Invalid: 1}},
	}
	served := held(t, "1.1")
	for _, test := range tests {
		t.Run(test.text, func(t *testing.T) {
			t.Parallel()
			var r record
			var day string
			if _, err := fmt.Sscan(test.text, &day, (*string)(&r.code), &r.text); err != nil {
				t.Fatal(err)
			}
			if err := r.day.UnmarshalText([]byte(day)); err != nil {
				t.Fatal(err)
			}
			quotes, got, err := screen([]record{r}, served, monday+2)
			if got != test.want || len(quotes) != got.Accepted || got.Accepted+got.Dropped() != 1 || errors.Is(err, ErrMalformed) != (len(quotes) == 0) {
				t.Errorf("got %+v, %v, want %+v", got, err, test.want)
			}
		})
	}
}

func TestEnough(t *testing.T) {
	t.Parallel()
	var b rates.Builder
	one, err := rates.ParseValue("1")
	if err != nil {
		t.Fatal(err)
	}
	b.Set(monday, "USD", one, rates.SourceECB)
	b.Set(monday, "JPY", one, rates.SourceECB)
	b.Set(monday, "GBP", one, rates.SourceECB)
	before := b.Build()
	usd, jpy := Quote{monday + 1, "USD", one}, Quote{monday + 1, "JPY", one}
	if err := enough([]Quote{usd}, before); !errors.Is(err, ErrTooFew) {
		t.Errorf("got %v, want ErrTooFew", err)
	}
	if err := enough([]Quote{usd, jpy}, before); err != nil {
		t.Errorf("got %v", err)
	}
	if err := enough([]Quote{usd}, new(rates.Builder).Build()); err != nil {
		t.Errorf("with nothing held: got %v", err)
	}
	if err := enough([]Quote{{monday, "USD", one}}, before); err != nil {
		t.Errorf("a correction: got %v", err)
	}
}
