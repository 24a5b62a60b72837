package api

import (
	"io"
	"iter"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-tollgate/tollgate/internal/apierror"
	"github.com/caddy-tollgate/tollgate/upstream/currency/civil"
	"github.com/caddy-tollgate/tollgate/upstream/currency/rates"
)

// The media types of answers.
const (
	mediaType = "application/json"
	csvType   = "text/csv"
	linesType = "application/x-ndjson"
)

// format is how answers are written in a media type.
type format struct {
	contentType string
	write       func(io.Writer, any) error
}

var (
	// formats are those of answers by media type. All but JSON have only
	// the rows of a table.
	formats = map[string]format{
		mediaType: {mediaType, writeJSON},
		csvType:   {csvType + "; charset=utf-8", writeCSV},
		linesType: {linesType, writeLines},
	}
	rowTypes      = [...]string{csvType, linesType}
	refusalFormat = format{apierror.ContentType, writeJSON}
)

// tabular is an answer with rows.
type tabular interface {
	// table returns the rows, nil if the answer has more than them.
	table() *table
}

// table has the rows of an answer with all that the answer says of them.
type table struct {
	columns []string
	// rows yields the rows. A row is valid until the next one.
	rows iter.Seq[row]
}

// row is a row of a table. Its JSON is a line of NDJSON.
type row interface {
	// addTo adds a field for each column.
	addTo(*csvLine)
}

// The names of members are those of fields, or sorted codes without
// duplicates: the check for duplicates takes a quarter of the time of a table.
// Maps are written in the order of their keys.
var jsonOptions = json.JoinOptions(jsontext.AllowDuplicateNames(true), json.Deterministic(true))

// writeJSON writes an answer as JSON.
func writeJSON(w io.Writer, answer any) error { return json.MarshalWrite(w, answer, jsonOptions) }

// writeLines writes a table as NDJSON: an object on each line.
func writeLines(w io.Writer, answer any) error {
	encoder := jsontext.NewEncoder(w, jsonOptions)
	for row := range answer.(*table).rows {
		if err := json.MarshalEncode(encoder, row, jsonOptions); err != nil {
			return err
		}
	}
	return nil
}

// writeCSV writes a table as CSV with a header line. Lines end with LF: with
// the CR LF of RFC 4180, awk would take CR for a part of the last field. CSV
// modules and spreadsheets read both.
func writeCSV(w io.Writer, answer any) error {
	t := answer.(*table)
	var line csvLine
	for _, column := range t.columns {
		line.text(column)
	}
	if err := line.writeTo(w); err != nil {
		return err
	}
	for row := range t.rows {
		row.addTo(&line)
		if err := line.writeTo(w); err != nil {
			return err
		}
	}
	return nil
}

// csvLine is a line of CSV, with a comma after each field.
type csvLine []byte

// text adds a text, in quotes if it needs them.
func (l *csvLine) text(s string) {
	if strings.ContainsAny(s, "\",\r\n") {
		s = `"` + strings.ReplaceAll(s, `"`, `""`) + `"`
	}
	*l = append(append(*l, s...), ',')
}

func (l *csvLine) date(d civil.Date) { l.text(d.String()) }

func (l *csvLine) number(n number) { *l = append(n.Append(*l), ',') }

// writeTo writes the line and empties it.
func (l *csvLine) writeTo(w io.Writer) error {
	line := *l
	line[len(line)-1] = '\n'
	*l = line[:0]
	_, err := w.Write(line)
	return err
}

// number is a decimal in an answer: an exact JSON number in plain notation.
type number struct{ rates.Decimal }

// Schema describes the number without a format: "double" would lead clients
// to lose digits.
func (number) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeNumber}
}

// MarshalJSONTo writes the number.
func (n number) MarshalJSONTo(encoder *jsontext.Encoder) error {
	return encoder.WriteValue(n.Append(encoder.AvailableBuffer()))
}

// rateTable is a table of rates by code. It is written as an object in the
// order of the table.
type rateTable []rates.Quote

// Schema describes the table as an object of numbers.
func (rateTable) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{
		Type:                 huma.TypeObject,
		AdditionalProperties: &huma.Schema{Type: huma.TypeNumber},
	}
}

// MarshalJSONTo writes the object.
func (t rateTable) MarshalJSONTo(encoder *jsontext.Encoder) error {
	if err := encoder.WriteToken(jsontext.BeginObject); err != nil {
		return err
	}
	for _, quote := range t {
		if err := encoder.WriteToken(jsontext.String(string(quote.Code))); err != nil {
			return err
		}
		if err := encoder.WriteValue(quote.Rate.Append(encoder.AvailableBuffer())); err != nil {
			return err
		}
	}
	return encoder.WriteToken(jsontext.EndObject)
}
