package book_test

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
	"github.com/caddy-tollgate/tollgate/internal/store/memstore"
	"github.com/caddy-tollgate/tollgate/internal/store/storetest"
)

// pieces returns pieces of all kinds.
func pieces(t *testing.T) []book.Piece {
	t.Helper()
	e := memstore.New()
	storetest.Fill(t, e)
	b := storetest.New(e)
	defer func() { wantError(t, "closing", b.Close(), nil) }()
	known, ends := imported("foreign", 0), b.Now().UTC().Round(0)
	keys := many(store.MaxEndedKeys, "k", key)
	for i := range keys {
		keys[i].RevokedAt = ends
	}
	err := b.ChangeOne(t.Context(), now, "acc_1", func(a *book.Account) error {
		known.RevokedAt = ends.Add(-1)
		for _, k := range append(keys, known) {
			if err := a.Create(k); err != nil {
				return err
			}
		}
		return nil
	})
	wantError(t, "pruning", err, nil)
	return append(storetest.Pieces(t, b.Book), book.Piece{Document: fullDocument()})
}

// TestPieces: JSON has all of a piece of each kind.
func TestPieces(t *testing.T) {
	t.Parallel()
	kinds := map[string]bool{}
	for _, p := range pieces(t) {
		text, err := json.Marshal(p)
		if err != nil {
			t.Fatalf("%+v: %v", p, err)
		}
		var got book.Piece
		if err := json.Unmarshal(text, &got); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		again, err := json.Marshal(got)
		if err != nil || string(again) != string(text) {
			t.Errorf("got %s, %v, want %s", again, err, text)
		}
		kind := "count"
		switch {
		case p.Document != nil:
			kind = "document"
			wantDocument(t, string(text), got.Document, p.Document)
		case p.Entry != nil:
			kind = "entry"
			if !reflect.DeepEqual(got.Entry, p.Entry) {
				t.Errorf("got entry %+v, want %+v", got.Entry, p.Entry)
			}
		case p.Row != nil:
			if kind, _, _ = strings.Cut(p.Space.Name, " "); kind != "refused" && kind != "closed" && kind != "ending" {
				row, _, _ := strings.Cut(p.Row.Key, " ")
				kind = strings.TrimSpace(kind + " " + row)
			}
			if got.Space != p.Space || got.Row.Key != p.Row.Key || !got.Row.Expires.Equal(p.Row.Expires) {
				t.Errorf("got row %+v of %+v, want %+v of %+v", got.Row, got.Space, p.Row, p.Space)
			}
		}
		kinds[kind] = true

		// An unknown member is refused, not lost.
		text = append(text[:len(text)-1], `,"unknown":1}`...)
		if json.Unmarshal(text, &got) == nil {
			t.Errorf("%s was read", text)
		}
		if p.Count == nil {
			text = []byte(strings.Replace(string(again), ":{", `:{"unknown":1,`, 1))
			if json.Unmarshal(text, &got) == nil {
				t.Errorf("%s was read", text)
			}
		}
	}
	want := []string{"calls", "closed", "count", "document", "ended", "ending", "entry", "events c", "events k", "events q", "events x", "refused", "timezone timezone", "topup", "uses", "~credit", "~credited"}
	if got := slices.Sorted(maps.Keys(kinds)); !slices.Equal(got, want) {
		t.Errorf("got kinds %q, want %q", got, want)
	}
}

// TestPieceRefusals: JSON of what no gate has written is an error.
func TestPieceRefusals(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		``, `{}`, `[]`, `{"key":{}}`, `{"account":{"id":"a"},"count":{}}`, `{"account":{"id":"a","keys":[null]}}`,
		`{"account":{"id":"a","keys":[{"id":"k","hash":"00"}]}}`, `{"account":{"id":"a","overrides":[{"period":"fortnight"}]}}`,
		`{"row":{"account":"a","key":"unknown","value":1}}`, `{"row":{"space":"unknown","key":"calls","value":[]}}`,
		`{"row":{"account":"a","key":"calls","value":{}}}`, `{"row":{"account":"a","key":"calls"}}`,
		`{"row":{"account":"a","key":"calls","value":[{"unknown":1}]}}`, `{"row":{"account":"a","space":"events","key":"n","value":1}}`,
		`{"audit":{"id":"-1-0"}}`, `{"row":{"account":"a","space":"refused 2026-01-01","key":"a","value":1}}`,
		`{"row":{"account":"a","space":"b","key":"calls","value":[]}}`, `{"row":{"key":"calls","value":[]}}`,
		`{"row":{"account":"a","key":"q 1 evt","value":{}}}`,
	} {
		var p book.Piece
		if err := json.Unmarshal([]byte(text), &p); err == nil {
			t.Errorf("%s was read as %+v", text, p)
		}
	}
	for _, p := range []book.Piece{
		{}, {Space: book.Space{Account: "a"}, Row: &book.Row{Key: "unknown", Value: []byte{1}}},
		{Space: book.Space{Account: "a"}, Row: &book.Row{Key: "calls", Value: []byte{9}}},
	} {
		if text, err := json.Marshal(p); err == nil {
			t.Errorf("%+v was written as %s", p, text)
		}
	}
}
