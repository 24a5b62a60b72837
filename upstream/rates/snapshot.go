package rates

import (
	_ "embed"
	"errors"
	"fmt"
	"strings"

	"github.com/caddy-tollgate/tollgate/upstream/currency"
	"github.com/caddy-tollgate/tollgate/upstream/currency/civil"
)

// snapshotTable is made by tools/ratesnap; SNAPSHOT.json tells the origin
// of each line.
//
//go:embed snapshot.csv
var snapshotTable string

var errTable = errors.New("table of rates is malformed")

// Snapshot returns the embedded rates. They come from dated releases of a
// public-domain package whose own sources are undisclosed: they are
// indicative and nobody's official rates. It parses the table on each call,
// which takes some ten milliseconds.
func Snapshot() (*Dataset, error) {
	d, err := parseTable(snapshotTable, SourceSnapshot)
	if err != nil {
		return nil, fmt.Errorf("reading the embedded snapshot: %w", err)
	}
	return d, nil
}

// parseTable reads a table with a line a day and a column a currency. An
// empty field is no value.
func parseTable(table string, source Source) (*Dataset, error) {
	var codes []currency.Code
	var builder Builder
	for line := range strings.Lines(table) {
		first, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ",")
		fields := strings.Split(rest, ",")
		if codes == nil {
			for _, field := range fields {
				code, err := currency.Parse(field)
				if err != nil {
					return nil, fmt.Errorf("%w: %w", errTable, err)
				}
				codes = append(codes, code)
			}
			continue
		}
		day, err := civil.Parse(first)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errTable, err)
		}
		if len(fields) != len(codes) {
			return nil, fmt.Errorf("%w: %d values on %s for %d currencies", errTable, len(fields), day, len(codes))
		}
		for i, field := range fields {
			if field == "" {
				continue
			}
			value, err := ParseValue(field)
			if err != nil {
				return nil, fmt.Errorf("%w: %s on %s: %w", errTable, codes[i], day, err)
			}
			builder.Set(day, codes[i], value, source)
		}
	}
	return builder.Build(), nil
}
