package ecb

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/terminal"
	"github.com/caddy-tollgate/tollgate/upstream/currency"
	"github.com/caddy-tollgate/tollgate/upstream/currency/civil"
	"github.com/caddy-tollgate/tollgate/upstream/currency/rates"
)

const (
	tableName = "ecb.csv"
	stateName = "ecb.json"
)

// state is the stored state beside the values.
type state struct {
	// Validators are those of the last content taken, by URL.
	Validators map[string]validators `json:"validators"`
	// FetchedAt is when rates last came in, CheckedAt when the bank was
	// last asked with success.
	FetchedAt time.Time `json:"fetched_at"`
	CheckedAt time.Time `json:"checked_at"`
	// Embedded is the newest day of the embedded rates that the table
	// continues.
	Embedded civil.Date `json:"embedded"`
	// Complete is true if the history was fetched after the last gap.
	Complete bool `json:"complete"`
}

// disk stores the accepted values that are not embedded in a folder, in the
// bank's CSV format, so that any tool can read them. With an empty folder it
// stores nothing.
type disk struct {
	folder string
	// stamp is the table's time and size when it was last read or written
	// here. Another process may replace the file.
	stamp stamp
}

type stamp struct {
	modified time.Time
	size     int64
}

// changed reports whether the table on disk is another than the one last
// read or written here.
func (d *disk) changed() bool {
	now, err := d.look()
	return err == nil && now != d.stamp
}

func (d *disk) look() (stamp, error) {
	info, err := os.Stat(filepath.Join(d.folder, tableName))
	if err != nil {
		return stamp{}, err
	}
	return stamp{info.ModTime(), info.Size()}, nil
}

// read returns the stored records, if any.
func (d *disk) read() ([]record, state, error) {
	if d.folder == "" {
		return nil, state{}, nil
	}
	found, err := d.look()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, state{}, nil
	}
	if err != nil {
		return nil, state{}, err
	}
	table, err := os.ReadFile(filepath.Join(d.folder, tableName))
	if err != nil {
		return nil, state{}, err
	}
	d.stamp = found
	records, err := parse(table)
	if err != nil {
		return nil, state{}, fmt.Errorf("%s: %w", tableName, err)
	}
	// The state only saves downloads: a missing or damaged one is ignored.
	var kept state
	text, err := os.ReadFile(filepath.Join(d.folder, stateName))
	if err != nil || json.Unmarshal(text, &kept) != nil {
		kept = state{}
	}
	return records, kept, nil
}

// writeTable replaces the stored values.
func (d *disk) writeTable(accepted *rates.Dataset) error {
	if d.folder == "" {
		return nil
	}
	if err := d.replace(tableName, format(accepted)); err != nil {
		return err
	}
	var err error
	d.stamp, err = d.look()
	return err
}

// writeState replaces the stored state. It is written after the table: if the
// process ends between the two, the content is fetched once more.
func (d *disk) writeState(s state) error {
	if d.folder == "" {
		return nil
	}
	text, err := json.MarshalIndent(s, "", " ")
	if err != nil {
		return err
	}
	return d.replace(stateName, append(text, '\n'))
}

// replace replaces a file: a reader always sees the complete old or the
// complete new content.
func (d *disk) replace(name string, content []byte) error {
	if err := os.MkdirAll(d.folder, 0o755); err != nil {
		return err
	}
	return terminal.ReplaceFile(filepath.Join(d.folder, name), func(draft *os.File) error {
		_, err := draft.Write(content)
		return err
	})
}

// setAside renames a table that cannot be read, for the operator.
func (d *disk) setAside() error {
	path := filepath.Join(d.folder, tableName)
	return os.Rename(path, path+".damaged")
}

// format writes the values as the bank does: a column a currency, newest day
// first, N/A for none.
func format(accepted *rates.Dataset) []byte {
	var table bytes.Buffer
	var codes []currency.Code
	table.WriteString("Date")
	for _, listing := range accepted.Listings() {
		if listing.Code == currency.Euro {
			continue
		}
		codes = append(codes, listing.Code)
		table.WriteString("," + string(listing.Code))
	}
	table.WriteByte('\n')
	for _, day := range slices.Backward(slices.Collect(accepted.All())) {
		table.WriteString(day.Date().String())
		for _, code := range codes {
			text := notQuoted
			if value, found := day.Value(code); found {
				text = value.String()
			}
			table.WriteString("," + text)
		}
		table.WriteByte('\n')
	}
	return table.Bytes()
}
