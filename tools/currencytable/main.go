// Command currencytable writes upstream/currency/table.csv from published
// data, so that a reviewer can repeat it:
//
//	npm pack currency-codes@2.2.0 cldr-numbers-full@48.2.0 cldr-core@48.2.0
//	go run ./tools/currencytable \
//		-iso currency-codes/iso-4217-list-one.xml \
//		-names cldr-numbers-full/main/en/currencies.json \
//		-dates cldr-core/supplemental/currencyData.json \
//		-out upstream/currency/table.csv
//
// ISO 4217 list one gives the codes, numbers and minor units; CLDR gives
// English names, symbols and the first day of each currency; facts.go adds
// the amendments since and the withdrawn currencies.
package main

import (
	"bytes"
	"encoding/csv"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"

	"github.com/caddy-tollgate/tollgate/upstream/currency/civil"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "currencytable:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	flags := flag.NewFlagSet("currencytable", flag.ContinueOnError)
	iso := flags.String("iso", "", "ISO 4217 list one, XML")
	names := flags.String("names", "", "CLDR main/en/currencies.json")
	dates := flags.String("dates", "", "CLDR supplemental/currencyData.json")
	out := flags.String("out", "", "the CSV file to write")
	if err := flags.Parse(args); err != nil {
		return err
	}
	rows, err := readList(*iso)
	if err != nil {
		return fmt.Errorf("reading list one: %w", err)
	}
	overlay := facts()
	addFacts(rows, overlay)
	if err := addNames(rows, *names); err != nil {
		return fmt.Errorf("reading names: %w", err)
	}
	if err := addStarts(rows, overlay, *dates); err != nil {
		return fmt.Errorf("reading dates: %w", err)
	}
	source, err := render(rows)
	if err != nil {
		return fmt.Errorf("writing the table: %w", err)
	}
	return os.WriteFile(*out, source, 0o644)
}

// row is one line of the table to be written.
type row struct {
	Code, Name, Numeric, Symbol string
	MinorUnit                   int
	Start, End                  civil.Date
	Successor, Ratio            string
}

// addFacts lays the hand-keyed facts over the list.
func addFacts(rows map[string]*row, overlay map[string]fact) {
	for code, fact := range overlay {
		r := rows[code]
		if r == nil {
			r = &row{Code: code, Name: fact.name, Numeric: fact.numeric, MinorUnit: fact.minorUnit}
			rows[code] = r
		}
		r.Start = fact.start
		if !fact.takeover.IsZero() {
			r.End = fact.takeover - 1
		}
		r.Successor, r.Ratio = fact.successor, fact.ratio
	}
}

// render prints the rows as CSV, sorted by code because lookups search.
func render(rows map[string]*row) ([]byte, error) {
	lines := [][]string{{"code", "name", "numeric", "minor_unit", "symbol", "start", "end", "successor", "ratio"}}
	for _, code := range slices.Sorted(maps.Keys(rows)) {
		r := rows[code]
		lines = append(lines, []string{r.Code, r.Name, r.Numeric, strconv.Itoa(r.MinorUnit), r.Symbol, r.Start.String(), r.End.String(), r.Successor, r.Ratio})
	}
	var buffer bytes.Buffer
	err := csv.NewWriter(&buffer).WriteAll(lines)
	return buffer.Bytes(), err
}
