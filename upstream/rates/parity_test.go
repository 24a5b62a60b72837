package rates

import (
	"errors"
	"testing"

	"github.com/caddy-tollgate/tollgate/upstream/currency"
	"github.com/caddy-tollgate/tollgate/upstream/currency/civil"
)

func TestParityTableRefused(t *testing.T) {
	t.Parallel()
	const header, line = "code,units,base_units,base,since,until,authority,url\n", "KYD,1,1.2,USD,1974-04-01,,CIMA,https://www.cima.ky/\n"
	if list, err := parseParities(header + line); err != nil || len(list) != 1 || list[0].Rate().String() != "0.833333333333" {
		t.Errorf("got %v, %v", list, err)
	}
	for name, line := range map[string]string{
		"too few fields":        "KYD,1,1.2,USD,1974-04-01,,CIMA\n",
		"no units":              "KYD,,1.2,USD,1974-04-01,,CIMA,https://www.cima.ky/\n",
		"no base units":         "KYD,1,0,USD,1974-04-01,,CIMA,https://www.cima.ky/\n",
		"too many digits":       "KYD,1,6.5536,USD,1974-04-01,,CIMA,https://www.cima.ky/\n",
		"no first day":          "KYD,1,1.2,USD,,,CIMA,https://www.cima.ky/\n",
		"a last day that is no": "KYD,1,1.2,USD,1974-04-01,2026-02-30,CIMA,https://www.cima.ky/\n",
	} {
		if _, err := parseParities(header + line); !errors.Is(err, errTable) {
			t.Errorf("%s: got %v, want errTable", name, err)
		}
	}
}

// Values that differ in their divisor alone are other values.
func TestVersionOfDivisors(t *testing.T) {
	t.Parallel()
	version := func(divisor uint16) string {
		d := &Dataset{codes: []currency.Code{"KYD"}, spans: make([]span, 1)}
		d.append(civil.New(2026, 1, 2), cell{coefficient: 1, source: SourceParity, divisor: divisor})
		return d.finish().Version()
	}
	if version(12) == version(838) {
		t.Error("the version did not change")
	}
}

// The parity of a currency that became the euro is the rate of the change.
func TestParitiesOfTheEuro(t *testing.T) {
	t.Parallel()
	count := 0
	for p := range Parities() {
		known, _ := currency.Lookup(p.Code)
		if known.Successor != currency.Euro {
			continue
		}
		count++
		ratio, err := ParseValue(known.Ratio)
		if err != nil || p.Base != currency.Euro || p.BaseUnits != one || p.Units.Cmp(ratio) != 0 || p.Until != known.End {
			t.Errorf("got %+v, want the ratio %s to %s, %v", p, known.Ratio, known.End, err)
		}
	}
	if count < 13 {
		t.Errorf("got %d", count)
	}
}
