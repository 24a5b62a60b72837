package book_test

import (
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/internal/store/book"
	"github.com/caddy-tollgate/tollgate/internal/store/memstore"
	"github.com/caddy-tollgate/tollgate/internal/store/storetest"
)

func linesOf(t *testing.T, pieces []book.Piece) (lines []string) {
	t.Helper()
	for _, p := range pieces {
		text, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, string(text))
	}
	slices.Sort(lines)
	return lines
}

// complete returns what Complete makes of pieces.
func complete(t *testing.T, pieces []book.Piece) (all []book.Piece) {
	t.Helper()
	for p, err := range book.Complete(func(yield func(book.Piece, error) bool) {
		for _, p := range pieces {
			if !yield(p, nil) {
				return
			}
		}
	}) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	return all
}

// TestComplete: the rows of events that a backup leaves out are made again, and
// those of several instants agree afterwards.
func TestComplete(t *testing.T) {
	t.Parallel()
	e := memstore.New()
	storetest.Fill(t, e)
	want := storetest.Pieces(t, book.New(e, slog.New(slog.DiscardHandler)))
	kept := slices.DeleteFunc(slices.Clone(want), book.Piece.IsDerived)
	if got := len(want) - len(kept); got != 3 {
		t.Errorf("%d pieces are derived, want those by due time and id of one event, and the number", got)
	}
	if got, want := linesOf(t, complete(t, kept)), linesOf(t, want); !slices.Equal(got, want) {
		t.Errorf("got %s\nwant %s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	// An event that waits in one row, and is delivered in another.
	for i, p := range kept {
		if p.Row == nil || !strings.HasPrefix(p.Row.Key, "q ") {
			continue
		}
		delivered := book.Piece{Space: p.Space, Row: &book.Row{Key: "k evt_queued", Value: done(t, kept)}}
		for name, pieces := range map[string][]book.Piece{"twice": {p, p}, "first": {delivered, p}, "last": {p, delivered}} {
			all := linesOf(t, complete(t, slices.Concat(kept[:i], pieces, kept[i+1:])))
			queued := 0
			for _, line := range all {
				if strings.Contains(line, "evt_queued") {
					queued++
				}
			}
			if want := map[string]int{"twice": 3, "first": 1, "last": 3}[name]; queued != want {
				t.Errorf("%s: %d rows of the event, want %d:\n%s", name, queued, want, strings.Join(all, "\n"))
			}
		}
	}
}

// done is the value of the row of an event that was delivered.
func done(t *testing.T, pieces []book.Piece) []byte {
	t.Helper()
	for _, p := range pieces {
		if p.Row != nil && p.Row.Key == "k evt_done" {
			return p.Row.Value
		}
	}
	t.Fatal("no event was delivered")
	return nil
}
