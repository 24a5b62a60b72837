package main

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"os"
	"strconv"

	"github.com/caddy-tollgate/tollgate/upstream/currency/civil"
)

// notApplicable is how list one writes the minor unit of a metal or a unit
// of account.
const notApplicable = "N.A."

// readList reads ISO 4217 list one, which names a currency once for each
// country that uses it.
func readList(path string) (map[string]*row, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var list struct {
		Entries []struct {
			Name    string `xml:"CcyNm"`
			Code    string `xml:"Ccy"`
			Numeric string `xml:"CcyNbr"`
			Units   string `xml:"CcyMnrUnts"`
		} `xml:"CcyTbl>CcyNtry"`
	}
	if err := xml.Unmarshal(data, &list); err != nil {
		return nil, err
	}
	rows := make(map[string]*row)
	for _, entry := range list.Entries {
		if entry.Code == "" {
			continue // a territory without a currency of its own
		}
		units := -1
		if entry.Units != notApplicable {
			if units, err = strconv.Atoi(entry.Units); err != nil {
				return nil, fmt.Errorf("minor unit of %s: %w", entry.Code, err)
			}
		}
		rows[entry.Code] = &row{Code: entry.Code, Name: entry.Name, Numeric: entry.Numeric, MinorUnit: units}
	}
	return rows, nil
}

// addNames sets English names and symbols. A currency without a symbol of
// its own shows its code, as CLDR does.
func addNames(rows map[string]*row, path string) error {
	var document struct {
		Main struct {
			English struct {
				Numbers struct {
					Currencies map[string]struct {
						Name   string `json:"displayName"`
						Symbol string `json:"symbol"`
					} `json:"currencies"`
				} `json:"numbers"`
			} `json:"en"`
		} `json:"main"`
	}
	if err := readJSON(path, &document); err != nil {
		return err
	}
	for code, r := range rows {
		known := document.Main.English.Numbers.Currencies[code]
		if known.Name != "" {
			r.Name = known.Name
		}
		if r.Symbol = known.Symbol; r.Symbol == "" {
			r.Symbol = code
		}
		if r.Name == "" {
			return fmt.Errorf("%s has no name", code)
		}
	}
	return nil
}

// addStarts sets the first day of each currency: the earliest among the
// regions that used it, unless a fact says otherwise.
func addStarts(rows map[string]*row, overlay map[string]fact, path string) error {
	type period struct {
		From civil.Date `json:"_from"`
	}
	var document struct {
		Supplemental struct {
			Data struct {
				Regions map[string][]map[string]period `json:"region"`
			} `json:"currencyData"`
		} `json:"supplemental"`
	}
	if err := readJSON(path, &document); err != nil {
		return err
	}
	for _, periods := range document.Supplemental.Data.Regions {
		for _, one := range periods {
			for code, period := range one {
				r := rows[code]
				if r == nil || period.From.IsZero() || !overlay[code].start.IsZero() {
					continue
				}
				if r.Start.IsZero() || period.From < r.Start {
					r.Start = period.From
				}
			}
		}
	}
	return nil
}

func readJSON(path string, into any) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, into)
}
