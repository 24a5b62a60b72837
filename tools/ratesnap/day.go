package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/cockroachdb/apd/v3"

	"github.com/caddy-tollgate/tollgate/upstream/currency"
	"github.com/caddy-tollgate/tollgate/upstream/currency/civil"
)

// digits is the precision kept. The source itself gives 8 to 15.
const digits = 12

// day is the rates of one release, by code, as plain decimal text.
type day struct {
	release release
	values  map[currency.Code]string
	sum     string // SHA-256 of the rates file
}

// readDay reads the rates file of a release.
func readDay(r release, content []byte) (day, error) {
	var file struct {
		Date  civil.Date             `json:"date"`
		Rates map[string]json.Number `json:"eur"`
	}
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.UseNumber()
	if err := decoder.Decode(&file); err != nil {
		return day{}, err
	}
	if file.Date != r.date {
		return day{}, fmt.Errorf("rates of %s in release %s", file.Date, r.Version)
	}
	values := make(map[currency.Code]string)
	for name, number := range file.Rates {
		code, err := currency.Parse(name)
		if err != nil || !wanted(code, r.date) {
			continue // most names are of tokens and coins
		}
		value, err := rounded(number.String())
		if err != nil {
			return day{}, fmt.Errorf("value of %s: %w", code, err)
		}
		if value != "" {
			values[code] = value
		}
	}
	return day{release: r, values: values, sum: hexSum(content)}, nil
}

// rounded returns the number to 12 significant digits in plain notation
// without trailing zeros, or nothing if it is not above zero.
func rounded(number string) (string, error) {
	context := apd.BaseContext.WithPrecision(digits)
	context.Rounding = apd.RoundHalfEven
	exact, _, err := apd.NewFromString(number)
	if err != nil {
		return "", err
	}
	if exact.Form != apd.Finite || exact.Sign() <= 0 {
		return "", nil
	}
	var value apd.Decimal
	if _, err := context.Round(&value, exact); err != nil {
		return "", err
	}
	value.Reduce(&value)
	return value.Text('f'), nil
}

// writeTable returns the days as CSV: one line a day, one column a currency,
// nothing where a day has no value.
func writeTable(days []day) []byte {
	codes := codesOf(days)
	var table bytes.Buffer
	table.WriteString("date")
	for _, code := range codes {
		table.WriteString("," + string(code))
	}
	table.WriteByte('\n')
	for _, d := range days {
		table.WriteString(d.release.date.String())
		for _, code := range codes {
			table.WriteString("," + d.values[code])
		}
		table.WriteByte('\n')
	}
	return table.Bytes()
}

// codesOf returns every code that a day quotes, sorted.
func codesOf(days []day) []currency.Code {
	all := make(map[currency.Code]struct{})
	for _, d := range days {
		for code := range d.values {
			all[code] = struct{}{}
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// reportJumps prints each step of more than a quarter, up or down, between a
// value and the one before it.
func reportJumps(days []day, output io.Writer) error {
	type seen struct {
		date  civil.Date
		value string
	}
	last := make(map[currency.Code]seen)
	for _, d := range days {
		for _, code := range slices.Sorted(maps.Keys(d.values)) {
			before, value := last[code], d.values[code]
			last[code] = seen{d.release.date, value}
			if before.value == "" {
				continue
			}
			large, err := jumps(before.value, value)
			if err != nil {
				return fmt.Errorf("%s: %w", code, err)
			}
			if !large {
				continue
			}
			if _, err := fmt.Fprintf(output, "%s: %s %s, %s %s\n", code, before.date, before.value, d.release.date, value); err != nil {
				return err
			}
		}
	}
	return nil
}

// jumps reports whether one of two values is more than 1.25 of the other.
func jumps(a, b string) (bool, error) {
	x, _, err := apd.NewFromString(a)
	if err != nil {
		return false, err
	}
	y, _, err := apd.NewFromString(b)
	if err != nil {
		return false, err
	}
	if x.Cmp(y) < 0 {
		x, y = y, x
	}
	var left, right apd.Decimal
	if _, err := apd.BaseContext.WithPrecision(2*digits).Mul(&left, x, apd.New(4, 0)); err != nil {
		return false, err
	}
	if _, err := apd.BaseContext.WithPrecision(2*digits).Mul(&right, y, apd.New(5, 0)); err != nil {
		return false, err
	}
	return left.Cmp(&right) > 0, nil
}
