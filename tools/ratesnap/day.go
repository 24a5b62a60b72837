package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

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

// number returns a value as a number for comparisons. Values are checked when
// they are read.
func number(value string) float64 {
	n, err := strconv.ParseFloat(value, 64)
	if err != nil {
		panic(fmt.Errorf("impossible value: %w", err))
	}
	return n
}
