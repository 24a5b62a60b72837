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

// None is an empty cell of a table.
const None = "-"

// Row writes one row of a table. A tabwriter returns its errors from Flush.
func Row(table io.Writer, cells ...string) {
	for i, cell := range cells {
		cells[i] = Plain(cell)
	}
	_, _ = fmt.Fprintln(table, strings.Join(cells, "\t"))
}

// End says so if a table has no rows.
func End(table io.Writer, rows int) {
	if rows == 0 {
		Row(table, "There are none.")
	}
}

// Plain makes a text safe for a terminal. Clients choose names and paths,
// which could move the cursor or change the direction of the text.
func Plain(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, text)
}

// Limit formats a limit; nil is unlimited.
func Limit(n *int64) string {
	if n == nil {
		return unlimited
	}
	return strconv.FormatInt(*n, 10)
}

// Moment formats a time in UTC. Times at which counts end are in the zone of
// the gate.
func Moment(t time.Time) string { return terminal.Time(t.UTC()) }

// MomentOr formats a time that may be absent.
func MomentOr(t *time.Time, absent string) string {
	if t == nil {
		return absent
	}
	return Moment(*t)
}

// Yes formats a yes or no.
func Yes(is bool) string {
	if is {
		return "yes"
	}
	return "no"
}
