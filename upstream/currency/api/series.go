package api

import (
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-tollgate/tollgate/upstream/currency"
	"github.com/caddy-tollgate/tollgate/upstream/currency/rates"
)

// historyRows are the rows of a history. They are computed each time they are
// written, and never held together: a list has up to 36,600 rates.
type historyRows struct {
	series iter.Seq[rates.Row]
	to     []currency.Code
}

// Schema describes an array of rows.
func (historyRows) Schema(registry huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeArray, Items: schemaOf[HistoryRow](registry)}
}

// MarshalJSONTo writes the array.
func (h historyRows) MarshalJSONTo(encoder *jsontext.Encoder) error {
	if err := encoder.WriteToken(jsontext.BeginArray); err != nil {
		return err
	}
	for line := range h.lines {
		if err := json.MarshalEncode(encoder, &line.(*historyLine).HistoryRow); err != nil {
			return err
		}
	}
	return encoder.WriteToken(jsontext.EndArray)
}

// historyLine is a row with its source.
type historyLine struct {
	HistoryRow
	Source sources `json:"source"`

	to     []currency.Code
	quotes rateTable
}

// lines yields each row as a *historyLine. A row is valid until the next one.
func (h historyRows) lines(yield func(row) bool) {
	line := &historyLine{to: h.to}
	for row := range h.series {
		line.Date, line.Filled, line.Source, line.quotes = row.Date, row.Filled, sources(row.Source.String()), row.Rates
		if len(h.to) == 1 {
			line.Rate = number{row.Rates[0].Rate}
		} else {
			line.Rates = row.Rates
		}
		if !yield(line) {
			return
		}
	}
}

// addTo adds the date, the rate of each currency, and the rest.
func (l *historyLine) addTo(line *csvLine) {
	line.date(l.Date)
	quotes := l.quotes
	for _, code := range l.to {
		if len(quotes) == 0 || quotes[0].Code != code {
			line.text("")
			continue
		}
		line.number(number{quotes[0].Rate})
		quotes = quotes[1:]
	}
	line.text(strconv.FormatBool(l.Filled))
	line.text(string(l.Source))
}

// table returns the rows, nil with a summary, which is no row.
func (h *history) table() *table {
	if h.Summary != nil {
		return nil
	}
	columns := []string{"date", "rate", "filled", "source"}
	if codes := strings.Split(h.To, ","); len(codes) > 1 {
		columns = slices.Replace(columns, 1, 2, codes...)
	}
	return &table{columns, h.Rates.lines}
}
