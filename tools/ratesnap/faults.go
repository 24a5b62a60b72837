package main

import (
	"slices"

	"github.com/caddy-tollgate/tollgate/upstream/currency"
	"github.com/caddy-tollgate/tollgate/upstream/currency/civil"
)

// excluded says which currencies the snapshot leaves out, and why.
func excluded() map[currency.Code]string {
	return map[currency.Code]string{
		"SYP": "the source changed level by a hundred and back around the redenomination of 2026: no day of it can be trusted unchecked",
		"ZWL": "the source switched between two levels a thousand apart until the currency ended",
	}
}

// withheld are single values that the source got wrong: each leaves the
// level of its currency, by a tenth or up to the thousandfold, and the next
// releases are back at it. They were found by reading the jumps that the
// generator prints and by looking for values far from those of the days before and after.
func withheld() map[currency.Code][]civil.Date {
	april, june := civil.New(2024, 4, 1), civil.New(2024, 6, 10)
	july, november := civil.New(2024, 7, 31), civil.New(2025, 11, 1)
	return map[currency.Code][]civil.Date{
		"CUP": {april, june},
		"MMK": {june},
		"MNT": {april, june, november},
		"SHP": {april, june},
		"SSP": {june, july},
		"XAG": {july},
		"XPD": {civil.New(2024, 11, 1)},
		"XPT": {civil.New(2024, 6, 1)},
	}
}

// wanted is the allow-list: a currency of ISO 4217 that was alive that day,
// but for the faults above. The euro needs no value.
func wanted(code currency.Code, date civil.Date) bool {
	known, found := currency.Lookup(code)
	if !found || code == currency.Euro || !known.ActiveOn(date) {
		return false
	}
	_, out := excluded()[code]
	return !out && !slices.Contains(withheld()[code], date)
}
