package cli

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// none stands where a table has nothing to say.
const none = "-"

// row writes one row of a table. A tabwriter keeps its errors until it is
// flushed.
func row(table io.Writer, cells ...string) {
	for i, cell := range cells {
		cells[i] = plain(cell)
	}
	_, _ = fmt.Fprintln(table, strings.Join(cells, "\t"))
}

// plain makes a text safe for a terminal: names and paths are chosen by
// strangers, and could move the cursor or turn the direction of writing.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, text)
}

// limit shows a number that is nil when there is no bound.
func limit(n *int64) string {
	if n == nil {
		return "unlimited"
	}
	return strconv.FormatInt(*n, 10)
}

func moment(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05Z") }

// momentOr shows a time that may be absent.
func momentOr(t *time.Time, absent string) string {
	if t == nil {
		return absent
	}
	return moment(*t)
}
