package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/caddy-tollgate/tollgate/upstream/currency/civil"
	"github.com/caddy-tollgate/tollgate/upstream/currency/rates"
	"github.com/caddy-tollgate/tollgate/upstream/currency/rates/ecb"
)

const (
	bankFile   = "ecb/eurofxref-hist.zip"
	bankOrigin = "ecb/eurofxref-hist.json"
)

// origin says where the bank's file comes from and what it has.
type origin struct {
	Source    string `json:"source"`
	URL       string `json:"url"`
	Statement string `json:"statement"`
	// SHA256 is of the zip file.
	SHA256     string     `json:"sha256"`
	First      civil.Date `json:"first"`
	Last       civil.Date `json:"last"`
	Days       int        `json:"days"`
	Currencies int        `json:"currencies"`
	Values     int        `json:"values"`
}

// takeBank puts a download of the bank's file in place of the one in the
// folder.
func takeBank(folder, download string) error {
	before, _, err := readBank(filepath.Join(folder, bankFile))
	if err != nil {
		return err
	}
	data, content, err := readBank(download)
	if err != nil {
		return err
	}
	if err := contradiction(before, data); err != nil {
		return fmt.Errorf("%s is not a newer file: %w", download, err)
	}
	if err := os.WriteFile(filepath.Join(folder, bankFile), content, 0o644); err != nil {
		return err
	}
	return writeJSON(filepath.Join(folder, bankOrigin), describeBank(data, content))
}

func readBank(path string) (*rates.Dataset, []byte, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, nil, err
	}
	data, err := ecb.Read(content)
	if err != nil {
		return nil, nil, fmt.Errorf("reading %s: %w", path, err)
	}
	return data, content, nil
}

// contradiction returns an error if a value is missing or changed by more than
// half. Smaller changes are corrections of the bank.
func contradiction(before, data *rates.Dataset) error {
	for day := range before.All() {
		now, found := data.On(day.Date())
		if !found {
			return fmt.Errorf("it lacks %s", day.Date())
		}
		for code, value := range day.Values() {
			changed, found := now.Value(code)
			if !found || value.Jumps(changed) {
				return fmt.Errorf("%s of %s was %s and is %s", code, day.Date(), value, changed)
			}
		}
	}
	return nil
}

func describeBank(data *rates.Dataset, content []byte) origin {
	o := origin{
		Source:     "European Central Bank, euro foreign exchange reference rates",
		URL:        "https://www.ecb.europa.eu/stats/eurofxref/eurofxref-hist.zip",
		Statement:  "Source: ECB statistics",
		SHA256:     hexSum(content),
		First:      data.First(),
		Last:       data.Newest(),
		Days:       data.Days(),
		Currencies: len(data.Listings()) - 1, // without the euro
	}
	for day := range data.All() {
		for range day.Values() {
			o.Values++
		}
	}
	return o
}

func writeJSON(path string, content any) error {
	text, err := json.MarshalIndent(content, "", " ")
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}
