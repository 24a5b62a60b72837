package main

import (
	"fmt"
	"math"
	"slices"

	"github.com/caddy-tollgate/tollgate/upstream/currency"
	"github.com/caddy-tollgate/tollgate/upstream/currency/civil"
	"github.com/caddy-tollgate/tollgate/upstream/currency/rates"
)

const (
	// maxBankOff and maxParityOff bound the median deviation of a day. All
	// other days have at most 0.55 % and 0.19 %.
	maxBankOff   = 0.01
	maxParityOff = 0.005
	// maxBankAge is how many days old the bank's values may be that a day is
	// compared with: the longest pause.
	maxBankAge = 4

	dayRule = "the values of a day are in the median more than 1 % from the ECB's, or more than 0.5 % from the parities"
)

// excluded says which currencies the rates leave out, and why.
func excluded() map[currency.Code]string {
	return map[currency.Code]string{
		"SYP": "the source changed level by a hundred and back around the redenomination of 2026: no day of it can be trusted unchecked",
		"ZWL": "the source switched between two levels a thousand apart until the currency ended",
	}
}

// wanted is the allow-list: a currency of ISO 4217 that was alive that day,
// and is not excluded. The euro needs no value.
func wanted(code currency.Code, date civil.Date) bool {
	known, found := currency.Lookup(code)
	_, out := excluded()[code]
	return found && !out && code != currency.Euro && known.ActiveOn(date)
}

// hasAddress reports whether a better source has the value: the bank, or an
// authority with a parity.
func hasAddress(code currency.Code, date civil.Date, bank *rates.Dataset) bool {
	if _, fixed := rates.ParityOn(code, date); fixed {
		return true
	}
	published, found := bank.On(date)
	if found {
		_, found = published.Value(code)
	}
	return found
}

// fault returns why a day is left out, or nothing.
func fault(d day, bank *rates.Dataset) string {
	if off := median(fromBank(d, bank)); off > maxBankOff {
		return fmt.Sprintf("%.2f %% from the ECB's values", 100*off)
	}
	if off := median(fromParities(d)); off > maxParityOff {
		return fmt.Sprintf("%.2f %% from the parities", 100*off)
	}
	return ""
}

// fromBank returns how far the values of a day are from those of the bank's
// newest publication.
func fromBank(d day, bank *rates.Dataset) []float64 {
	published, err := bank.At(d.release.date)
	if err != nil || d.release.date-published.Date() > maxBankAge {
		return nil // the bank's file ends before
	}
	var off []float64
	for code, want := range published.Values() {
		if value, found := d.values[code]; found {
			off = append(off, deviation(number(value), number(want.String())))
		}
	}
	return off
}

// fromParities returns how far the values of a day are from their parities.
func fromParities(d day) []float64 {
	var off []float64
	for code, value := range d.values {
		p, fixed := rates.ParityOn(code, d.release.date)
		base := d.values[p.Base]
		if p.Base == currency.Euro {
			base = "1"
		}
		if fixed && base != "" {
			want := number(base) * number(p.Units.String()) / number(p.BaseUnits.String())
			off = append(off, deviation(number(value), want))
		}
	}
	return off
}

// deviation returns by which part of want a value is off.
func deviation(value, want float64) float64 { return math.Abs(value/want - 1) }

// median returns the middle of the numbers, 0 without any.
func median(numbers []float64) float64 {
	if len(numbers) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(numbers))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}
