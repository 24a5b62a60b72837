package cli

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/caddy-tollgate/tollgate/internal/terminal"
)

// none is an empty cell of a table.
const none = "-"

// row writes one row of a table. A tabwriter returns its errors from Flush.
func row(table io.Writer, cells ...string) {
	for i, cell := range cells {
		cells[i] = plain(cell)
	}
	_, _ = fmt.Fprintln(table, strings.Join(cells, "\t"))
}

// end says so if a table has no rows.
func end(table io.Writer, rows int) {
	if rows == 0 {
		row(table, "There are none.")
	}
}

// plain makes a text safe for a terminal. Clients choose names and paths,
// which could move the cursor or change the direction of the text.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, text)
}

// limit formats a limit; nil is unlimited.
func limit(n *int64) string {
	if n == nil {
		return unlimited
	}
	return strconv.FormatInt(*n, 10)
}

// moment formats a time in UTC. Times at which counts end are in the zone of
// the gate.
func moment(t time.Time) string { return terminal.Time(t.UTC()) }

// momentOr formats a time that may be absent.
func momentOr(t *time.Time, absent string) string {
	if t == nil {
		return absent
	}
	return moment(*t)
}
