package ecb

import (
	_ "embed"
	"fmt"

	"github.com/caddy-tollgate/tollgate/upstream/currency/rates"
)

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
