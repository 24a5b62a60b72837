package rates

import (
	"errors"
	"fmt"
	"slices"
	"strings"
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

// The parities that hold, written a second time by hand: a changed digit of the
// table is found.
func TestParitiesOfToday(t *testing.T) {
	t.Parallel()
	want := strings.Fields(`AED=3.6725USD AWG=1.79USD BAM=1.95583EUR BBD=2USD BHD=0.376USD BMD=1USD BND=1SGD BSD=1USD BTN=1INR
		BZD=2USD CVE=110.265EUR DJF=177.721USD FKP=1GBP GIP=1GBP JOD=0.709USD KMF=491.96775EUR KYD=0.833333333333USD LSL=1ZAR
		MOP=1.03HKD NAD=1ZAR NPR=1.6INR OMR=0.3845USD PAB=1USD QAR=3.64USD SAR=3.75USD SHP=1GBP STN=24.5EUR SVC=8.75USD SZL=1ZAR
		TMT=3.5USD XAF=655.957EUR XCD=2.7USD XCG=1.79USD XOF=655.957EUR XPF=119.331742243EUR`)
	var got []string
	for _, p := range parities() {
		if p.Until.IsZero() {
			got = append(got, fmt.Sprintf("%s=%s%s", p.Code, p.Rate(), p.Base))
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// The parity of a currency that became the euro is the rate of the change.
func TestParitiesOfTheEuro(t *testing.T) {
	t.Parallel()
	count := 0
	for _, p := range parities() {
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
