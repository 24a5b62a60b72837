package api

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"hash"
	"io"
	"iter"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-tollgate/tollgate/internal/apierror"
	"github.com/caddy-tollgate/tollgate/upstream/currency/civil"
	"github.com/caddy-tollgate/tollgate/upstream/currency/rates"
)

// longestKept is the size of an answer up to which it is kept in memory while
// it is sent. A history of one currency has at most 220 kB.
const longestKept = 256 << 10

// kept is an answer, as far as it is kept, with its digest and length.
type kept struct {
	text   bytes.Buffer
	digest hash.Hash
	length int
}

// Write adds to the answer. It never fails.
func (k *kept) Write(part []byte) (int, error) {
	k.digest.Write(part)
	if k.length += len(part); k.length <= longestKept {
		k.text.Write(part)
	}
	return len(part), nil
}

func newKept() any { return &kept{digest: sha256.New()} }

func (k *kept) reset() {
	k.text.Reset()
	k.digest.Reset()
	k.length = 0
}

// shortBody is a length in bytes up to which net/http sets Content-Length
// itself. In one process with the gate, the field would be the ninth of the
// header. A Go map of nine entries takes twice the memory of one of eight.
const shortBody = 1 << 10

// send writes an answer. A client may cache a successful GET until newer
// rates are expected, and gets 304 if its cached answer is current. Nothing
// else may be cached. The answer is written once for its digest, and if it is
// too long to be kept, once more to the client.
func (s *service) send(w http.ResponseWriter, r *http.Request, status int, f format, answer any) {
	k := s.answers.Get().(*kept)
	defer s.answers.Put(k)
	k.reset()
	if err := f.write(k, answer); err != nil {
		panic(fmt.Errorf("writing an answer: %w", err)) // only a defect can cause it
	}
	// The keys are in canonical form; Header.Set would check that.
	header := w.Header()
	if status == http.StatusOK && r.Method != http.MethodPost {
		etag := entityTag(k.digest.Sum(nil))
		header["Etag"] = []string{etag}
		header["Cache-Control"] = []string{"private, max-age=" + strconv.Itoa(s.maxAge())}
		if matches(r.Header["If-None-Match"], etag) {
			w.WriteHeader(http.StatusNotModified)
			return
		}
	} else {
		header["Cache-Control"] = []string{"no-store"}
	}
	header["Content-Type"] = []string{f.contentType}
	whole := k.length <= longestKept
	if whole && (k.length > shortBody || r.Method == http.MethodHead) {
		header["Content-Length"] = []string{strconv.Itoa(k.length)}
	}
	w.WriteHeader(status)
	switch {
	case r.Method == http.MethodHead:
	// If a write fails, the client is gone; ignore the error.
	case whole:
		_, _ = w.Write(k.text.Bytes())
	default:
		_ = f.write(w, answer)
	}
}

// maxAge returns how many seconds an answer is fresh.
func (s *service) maxAge() int {
	now := s.now()
	return int(max(s.source.NextExpected(now).Sub(now), 0) / time.Second)
}

// entityTag returns the strong entity tag of a body: 128 bits of its SHA-256.
func entityTag(sum []byte) string {
	tag := append(make([]byte, 0, 24), '"')
	tag = base64.RawURLEncoding.AppendEncode(tag, sum[:16])
	return string(append(tag, '"'))
}

// matches reports whether If-None-Match has the tag. It uses the weak
// comparison (RFC 9110, section 13.1.2): a proxy that compresses an answer
// adds W/ to the tag.
func matches(fields []string, etag string) bool {
	for _, field := range fields {
		for candidate := range strings.SplitSeq(field, ",") {
			candidate = strings.TrimSpace(candidate)
			if candidate == "*" || strings.TrimPrefix(candidate, "W/") == etag {
				return true
			}
		}
	}
	return false
}

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
