package ecb

import (
	"archive/zip"
	"bytes"
	_ "embed"
	"encoding/csv"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/caddy-tollgate/tollgate/upstream/currency"
	"github.com/caddy-tollgate/tollgate/upstream/currency/civil"
	"github.com/caddy-tollgate/tollgate/upstream/currency/rates"
)

// maxTable is the maximum size of the unpacked history. It has 2 MB and grows
// by 70 KB a year. A zip bomb must not fill the memory.
const maxTable = 32 << 20

// errXML does not quote the document.
var errXML = errors.New("not the XML of the bank's rates")

// notQuoted marks a currency without a rate on a day.
const notQuoted = "N/A"

// record is one value as it was written, of a well-formed code on a real
// day.
type record struct {
	day  civil.Date
	code currency.Code
	text string
}

// parse reads a publication of any kind: the zipped history, its CSV, or
// the daily XML.
func parse(content []byte) ([]record, error) {
	var records []record
	var err error
	switch {
	case bytes.HasPrefix(content, []byte("PK")):
		if content, err = unzip(content); err == nil {
			records, err = parseTable(content)
		}
	case bytes.HasPrefix(bytes.TrimSpace(content), []byte("<")):
		records, err = parseDaily(content)
	default:
		records, err = parseTable(content)
	}
	if errors.Is(err, ErrTooLarge) {
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	if len(records) == 0 {
		return nil, fmt.Errorf("%w: no rates in it", ErrMalformed)
	}
	return records, nil
}

// unzip returns the one CSV file of an archive.
func unzip(content []byte) ([]byte, error) {
	archive, err := zip.NewReader(bytes.NewReader(content), int64(len(content)))
	if err != nil {
		return nil, err
	}
	for _, member := range archive.File {
		if !strings.HasSuffix(member.Name, ".csv") {
			continue
		}
		file, err := member.Open()
		if err != nil {
			return nil, err
		}
		// The size in the archive's directory may be wrong: limit the unpacked
		// bytes.
		table, err := readBounded(file, maxTable)
		return table, errors.Join(err, file.Close())
	}
	return nil, errors.New("no CSV file in the archive")
}

// readBounded reads all of r, or fails with ErrTooLarge.
func readBounded(r io.Reader, limit int64) ([]byte, error) {
	content, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(content)) > limit {
		return nil, fmt.Errorf("%w: more than %d bytes", ErrTooLarge, limit)
	}
	return content, nil
}

// parseTable reads the CSV: a header "Date,USD,JPY,…", then a line a day.
// The bank ends each line with a comma, that is with an empty last column.
func parseTable(content []byte) ([]record, error) {
	reader := csv.NewReader(bytes.NewReader(content))
	reader.TrimLeadingSpace = true
	reader.ReuseRecord = true
	header, err := reader.Read()
	if err != nil {
		return nil, err
	}
	codes, err := parseHeader(header)
	if err != nil {
		return nil, err
	}
	var records []record
	seen := make(map[civil.Date]struct{})
	for {
		line, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return records, nil
		}
		if err != nil {
			return nil, err
		}
		day, err := civil.Parse(line[0])
		if err != nil {
			return nil, err
		}
		if _, duplicate := seen[day]; duplicate {
			return nil, fmt.Errorf("duplicate day %s", day)
		}
		seen[day] = struct{}{}
		for i, text := range line[1:] {
			text = strings.TrimSpace(text)
			if codes[i] != "" && text != notQuoted && text != "" {
				records = append(records, record{day, codes[i], text})
			}
		}
	}
}

// parseHeader returns the codes of the columns after the first, "" for an
// empty column.
func parseHeader(header []string) ([]currency.Code, error) {
	if header[0] != "Date" || len(header) < 2 {
		return nil, fmt.Errorf("a table that begins with %.32q", header[0])
	}
	codes := make([]currency.Code, len(header)-1)
	seen := make(map[currency.Code]struct{})
	for i, field := range header[1:] {
		if field = strings.TrimSpace(field); field == "" {
			continue
		}
		code, err := currency.Parse(field)
		if err != nil {
			return nil, fmt.Errorf("currency %w", err)
		}
		if _, duplicate := seen[code]; duplicate {
			return nil, fmt.Errorf("duplicate currency %s", code)
		}
		seen[code] = struct{}{}
		codes[i] = code
	}
	return codes, nil
}

// parseDaily reads eurofxref-daily.xml, or a longer one of its kind.
func parseDaily(content []byte) ([]record, error) {
	var envelope struct {
		XMLName xml.Name `xml:"Envelope"`
		Days    []struct {
			Day   string `xml:"time,attr"`
			Rates []struct {
				Code  string `xml:"currency,attr"`
				Value string `xml:"rate,attr"`
			} `xml:"Cube"`
		} `xml:"Cube>Cube"`
	}
	if err := xml.Unmarshal(content, &envelope); err != nil {
		return nil, errXML
	}
	var records []record
	for _, cube := range envelope.Days {
		day, err := civil.Parse(cube.Day)
		if err != nil {
			return nil, err
		}
		for _, rate := range cube.Rates {
			code, err := currency.Parse(rate.Code)
			if err != nil {
				return nil, fmt.Errorf("currency %w", err)
			}
			records = append(records, record{day, code, rate.Value})
		}
	}
	return records, nil
}

// history is the bank's file as it was downloaded: tools/ratesnap checked it,
// eurofxref-hist.json has its origin. Source: ECB statistics.
//
//go:embed eurofxref-hist.zip
var history []byte

// Embedded returns the bank's rates from 1999 to the day of the embedded file.
// Each call parses the file.
func Embedded() (*rates.Dataset, error) {
	data, err := Read(history)
	if err != nil {
		return nil, fmt.Errorf("reading the embedded rates of the bank: %w", err)
	}
	return data, nil
}

// Read returns the rates of the bank's zipped history. It is for the embedded
// file: what comes from the network needs more checks.
func Read(history []byte) (*rates.Dataset, error) {
	table, err := unzip(history)
	if err != nil {
		return nil, err
	}
	return rates.ReadTable(string(table), rates.SourceECB)
}
