package backup_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/caddy-tollgate/tollgate/caddymodule/calendar"
	"github.com/caddy-tollgate/tollgate/caddymodule/internal/admin/backup"
	"github.com/caddy-tollgate/tollgate/caddymodule/internal/badgerstore"
	"github.com/caddy-tollgate/tollgate/caddymodule/internal/policy"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
	"github.com/caddy-tollgate/tollgate/caddymodule/store/storetest"
	"github.com/caddy-tollgate/tollgate/caddymodule/token"
)

// items is an exporter of these items.
type items []store.Item

func (all items) Export(_ context.Context, write func(store.Item) error) error {
	for _, item := range all {
		if err := write(item); err != nil {
			return err
		}
	}
	return nil
}

// first is the first line of a file.
const first = `{"tollgate_backup":1,"at":"2026-11-23T10:00:00Z"}`

var at = time.Date(2026, 11, 23, 10, 0, 0, 123456789, time.UTC)

func write(t testing.TB, all items) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := backup.Write(context.Background(), &out, at, all); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// read opens a file with this content and returns all items.
func read(path string, content []byte) (all items, file *backup.File, err error) {
	if err := os.WriteFile(path, content, 0o600); err != nil {
		return nil, nil, err
	}
	if file, err = backup.Open(context.Background(), path); err != nil {
		return nil, nil, err
	}
	defer file.Close()
	for item, err := range file.Items(context.Background()) {
		if err != nil {
			return nil, nil, err
		}
		all = append(all, item)
	}
	return all, file, nil
}

var compared = cmp.Options{cmpopts.EquateEmpty(), cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{})}

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "backup")
	rapid.Check(t, func(t *rapid.T) {
		want := items(rapid.SliceOf(anItem()).Draw(t, "items"))
		var out bytes.Buffer
		if err := backup.Write(context.Background(), &out, at, want); err != nil {
			t.Fatal(err)
		}
		got, file, err := read(path, out.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got, compared); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
		accounts, keys := int64(0), int64(0)
		for _, item := range want {
			if item.Account != nil {
				accounts++
			}
			if item.Key != nil {
				keys++
			}
		}
		if !file.At.Equal(at) || file.Size != int64(out.Len()) || file.Rows != int64(len(want)) || file.Accounts != accounts || file.Keys != keys {
			t.Fatalf("got %+v", file)
		}
	})
}

// anItem generates items of all kinds, with all values that a gate can write.
func anItem() *rapid.Generator[store.Item] {
	word := rapid.StringMatching(`[A-Za-z][A-Za-z0-9_.-]{0,63}`)
	accountID := rapid.OneOf(rapid.StringMatching(`[A-Za-z0-9_@-][A-Za-z0-9._@-]{0,63}`), rapid.SampledFrom([]string{"..a", "-", "ada@example.com"}))
	optional := func(g *rapid.Generator[string]) *rapid.Generator[string] { return rapid.OneOf(rapid.Just(""), g) }
	// With control characters and what HTML escapes.
	text := func(most int) *rapid.Generator[string] {
		return rapid.OneOf(rapid.StringN(0, most, -1), rapid.SampledFrom([]string{"\x00", "\x00ff", "</script>\u2028", strings.Repeat("\U0001f600", most)}))
	}
	path := rapid.OneOf(text(200), rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }), rapid.Just("\xff"))
	instant := rapid.Custom(func(t *rapid.T) time.Time {
		if rapid.Bool().Draw(t, "zero") {
			return time.Time{}
		}
		return time.Unix(rapid.Int64Range(0, 1<<33).Draw(t, "seconds"), rapid.Int64Range(0, 999_999_999).Draw(t, "nanoseconds")).UTC()
	})
	day := rapid.Custom(func(t *rapid.T) calendar.Day { return calendar.Day(rapid.Int32Range(-1, 100_000).Draw(t, "day")) })
	number := rapid.Int64Range(0, math.MaxInt64)
	limit := rapid.Custom(func(t *rapid.T) store.Limit {
		l := store.Limit{Endpoint: word.Draw(t, "endpoint"), Period: store.Period(rapid.IntRange(1, 5).Draw(t, "period"))}
		least := int64(0)
		if l.Period.IsPace() {
			least = 1
		}
		l.Max = rapid.OneOf(rapid.Int64Range(least, policy.MaxLimit), rapid.Just(store.Unlimited)).Draw(t, "max")
		return l
	})
	limits := func(most int) *rapid.Generator[[]store.Limit] {
		return rapid.SliceOfNDistinct(limit, 0, most, func(l store.Limit) string { return l.Endpoint + l.Period.String() })
	}
	address := rapid.SampledFrom([]netip.Addr{{}, netip.MustParseAddr("203.0.113.7"), netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("::ffff:1.2.3.4")})
	prefix := rapid.SampledFrom([]netip.Prefix{netip.MustParsePrefix("203.0.113.0/24"), netip.MustParsePrefix("2001:db8::/32")})
	document := rapid.SampledFrom([]json.RawMessage{nil, json.RawMessage(`{"plan": "free",  "label":"<&>"}`), json.RawMessage(`null`)})
	return rapid.Custom(func(t *rapid.T) (item store.Item) {
		id, account := word.Draw(t, "id"), accountID.Draw(t, "account")
		switch rapid.IntRange(0, 6).Draw(t, "kind") {
		case 0:
			item.Account = &store.Account{
				ID: account, Plan: word.Draw(t, "plan"), Label: text(200).Draw(t, "label"), Disabled: rapid.Bool().Draw(t, "disabled"), CreatedAt: instant.Draw(t, "created"),
			}
			for _, l := range limits(rapid.SampledFrom([]int{3, store.MaxOverrides}).Draw(t, "overrides")).Draw(t, "limits") {
				item.Account.Overrides = append(item.Account.Overrides, store.Override{
					Limit: l, ExpiresAt: instant.Draw(t, "expires"), Reason: text(200).Draw(t, "reason"), CreatedAt: instant.Draw(t, "created"),
				})
			}
		case 1:
			item.Key = &store.StoredKey{Key: store.Key{
				ID: id, Account: account, Kind: rapid.SampledFrom([]token.Kind{token.Key, token.Login}).Draw(t, "kind of key"), Name: text(64).Draw(t, "name"),
				Abilities: rapid.SliceOfN(word, 0, 3).Draw(t, "abilities"), Hint: token.Hint(""), CreatedAt: instant.Draw(t, "created"),
				ExpiresAt: instant.Draw(t, "expires"), RevokedAt: instant.Draw(t, "revoked"), LastUsedAt: instant.Draw(t, "used"),
				LastUsedFrom: address.Draw(t, "from"), Limits: limits(3).Draw(t, "limits"),
				Addresses: rapid.SliceOfN(prefix, 0, store.MaxAddresses).Draw(t, "addresses"), Root: optional(word).Draw(t, "root"),
			}}
			for i := range item.Key.Limits {
				item.Key.Limits[i].OfKey = true
			}
			copy(item.Key.Hash[:], rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "hash"))
		case 2:
			item.Count = &store.StoredCount{Account: account, Key: optional(word).Draw(t, "key"),
				Count: store.Count{Day: day.Draw(t, "day"), Endpoint: id, Used: number.Draw(t, "used")}}
		case 3:
			item.Call = &store.Record{
				Account: account, Key: optional(word).Draw(t, "key"), KeyName: text(64).Draw(t, "name"), At: instant.Draw(t, "at"), Endpoint: word.Draw(t, "endpoint"),
				Method: "GET", Path: path.Draw(t, "path"), Status: rapid.IntRange(100, 999).Draw(t, "status"), Duration: time.Duration(rapid.Int64().Draw(t, "duration")),
				Code: optional(word).Draw(t, "code of the refusal"),
			}
		case 4:
			item.Refused = &store.Refused{
				Day: day.Draw(t, "day"), Account: optional(accountID).Draw(t, "account"), Endpoint: optional(word).Draw(t, "endpoint"),
				Code: word.Draw(t, "code"), Calls: number.Draw(t, "calls"),
			}
		case 5:
			item.Entry = &store.Entry{
				ID: store.EntryID{Milliseconds: rapid.Int64Range(0, 1<<43).Draw(t, "ms"), Number: rapid.Int64Range(1, 1<<52).Draw(t, "number")},
				At: instant.Draw(t, "at"), ActorKind: rapid.SampledFrom([]string{"admin", "application", "person"}).Draw(t, "kind of actor"),
				ActorID: text(200).Draw(t, "actor"), Action: word.Draw(t, "action"), Account: optional(accountID).Draw(t, "account"), Target: text(200).Draw(t, "target"),
				Before: document.Draw(t, "before"), After: document.Draw(t, "after"),
			}
		case 6:
			item.Event = &store.Event{
				ID: id, Type: optional(word).Draw(t, "type"), At: instant.Draw(t, "at"), Body: rapid.SliceOf(rapid.Byte()).Draw(t, "body"), Queued: rapid.Bool().Draw(t, "queued"),
				Known: instant.Draw(t, "known"), Attempts: rapid.IntRange(0, 100).Draw(t, "attempts"), Due: instant.Draw(t, "due"),
			}
		}
		return item
	})
}

// sample is a backup of some items.
func sample(t testing.TB) (items, []byte) {
	t.Helper()
	var all items
	for n := range 80 {
		all = append(all, anItem().Example(n))
	}
	return all, write(t, all)
}

// A disk or a person changes a file. Bits without a meaning exist in its
// compressed form only: such a file has the same items.
func TestDamagedFiles(t *testing.T) {
	t.Parallel()
	want, intact := sample(t)
	path := filepath.Join(t.TempDir(), "backup")
	ends, samples := 24, 40
	if storetest.Long() {
		ends, samples = 64, 400
	}
	step := max(1, len(intact)/samples)
	positions := func(yield func(int) bool) {
		for n := range intact {
			// All of both ends, and a sample between.
			if (n < ends || n >= len(intact)-ends || n%step == 0) && !yield(n) {
				return
			}
		}
	}
	for n := range positions {
		changed := slices.Clone(intact)
		changed[n] ^= 0xff
		if _, _, err := read(path, changed); !errors.Is(err, backup.ErrDamaged) && !errors.Is(err, backup.ErrVersion) {
			t.Errorf("byte %d of %d flipped: got %v", n, len(intact), err)
		}
		changed[n] = intact[n] ^ 1<<(n%8)
		if got, _, err := read(path, changed); err == nil && cmp.Diff(want, got, compared) != "" {
			t.Errorf("one bit of byte %d of %d flipped: other items are accepted", n, len(intact))
		}
		if _, _, err := read(path, intact[:n]); !errors.Is(err, backup.ErrDamaged) {
			t.Errorf("cut at byte %d of %d: got %v", n, len(intact), err)
		}
	}
	for _, more := range []string{"\x00", "\n", "more", string(intact)} {
		if _, _, err := read(path, append(slices.Clone(intact), more...)); !errors.Is(err, backup.ErrDamaged) {
			t.Errorf("%d bytes appended: got %v", len(more), err)
		}
	}
}

// pack is a file with these lines, the last of which is made from the others
// if it is "end".
func pack(t *testing.T, lines ...string) []byte {
	t.Helper()
	if lines[len(lines)-1] == "end" {
		text := strings.Join(lines[:len(lines)-1], "\n") + "\n"
		lines[len(lines)-1] = fmt.Sprintf(`{"rows":%d,"sha256":"%x"}`, len(lines)-2, sha256.Sum256([]byte(text)))
	}
	var out bytes.Buffer
	packed := gzip.NewWriter(&out)
	if _, err := io.WriteString(packed, strings.Join(lines, "\n")+"\n"); err != nil {
		t.Fatal(err)
	}
	if err := packed.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestRefusedContent(t *testing.T) {
	t.Parallel()
	const row = `{"account":{"id":"a","plan":"free"}}`
	if got, _, err := read(filepath.Join(t.TempDir(), "backup"), pack(t, first, row, "end")); err != nil || len(got) != 1 || got[0].Account.ID != "a" {
		t.Fatalf("got %v, %v", got, err)
	}
	for name, test := range map[string]struct {
		lines []string
		want  string
	}{
		"a newer version":     {[]string{`{"tollgate_backup":2,"at":"2026-11-23T10:00:00Z"}`, "end"}, "unknown version of the backup: 2; this program reads version 1"},
		"not a backup":        {[]string{`{"some":"thing"}`}, "no header"},
		"an unknown header":   {[]string{`{"tollgate_backup":1,"at":"2026-11-23T10:00:00Z","x":1}`, "end"}, "no valid header"},
		"no last line":        {[]string{first, row}, "it has no end"},
		"a wrong number":      {[]string{first, row, `{"rows":2,"sha256":""}`}, "it has 1 rows instead of 2"},
		"a wrong checksum":    {[]string{first, row, `{"rows":1,"sha256":""}`}, "its checksum is wrong"},
		"an unknown kind":     {[]string{first, `{"team":{}}`, "end"}, `row 1: json: unknown field "team"`},
		"an unknown member":   {[]string{first, `{"account":{"id":"a","plan":"free","x":1}}`, "end"}, `unknown field "x"`},
		"two kinds":           {[]string{first, `{"account":{"id":"a"},"count":{"day":"2026-11-23"}}`, "end"}, "not exactly one kind"},
		"no kind":             {[]string{first, `{}`, "end"}, "not exactly one kind"},
		"two values":          {[]string{first, row + row, "end"}, "more than one value"},
		"an invalid hash":     {[]string{first, `{"key":{"id":"k","account":"a","kind":"key","hash":"00"}}`, "end"}, "invalid hash"},
		"an unknown period":   {[]string{first, `{"account":{"id":"a","overrides":[{"endpoint":"x","period":"week","limit":1}]}}`, "end"}, `unknown period "week"`},
		"an unknown key kind": {[]string{first, `{"key":{"id":"k","account":"a","kind":"x","hash":""}}`, "end"}, `unknown kind of key "x"`},
		"an invalid day":      {[]string{first, `{"count":{"account":"a","day":"2026-02-30","endpoint":"x","used":1}}`, "end"}, `invalid day "2026-02-30"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, _, err := read(filepath.Join(t.TempDir(), "backup"), pack(t, test.lines...))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
	t.Run("a line after the last one", func(t *testing.T) {
		t.Parallel()
		end := fmt.Sprintf(`{"rows":0,"sha256":"%x"}`, sha256.Sum256([]byte(first+"\n")))
		_, _, err := read(filepath.Join(t.TempDir(), "backup"), pack(t, first, end, row))
		if err == nil || !strings.Contains(err.Error(), "a line follows") {
			t.Errorf("got %v", err)
		}
	})
}

// A signal ends the verification of a file, and the reading of its items.
func TestInterruptedReading(t *testing.T) {
	t.Parallel()
	_, content := sample(t)
	path := filepath.Join(t.TempDir(), "backup")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	signal := errors.New("a signal")
	ctx, interrupt := context.WithCancelCause(t.Context())
	defer interrupt(nil)
	file, err := backup.Open(ctx, path)
	if err != nil {
		t.Fatal(err)
	}
	read := 0
	for _, err = range file.Items(ctx) {
		if read++; read == 10 {
			interrupt(signal)
		}
	}
	if !errors.Is(err, signal) || read != 11 {
		t.Errorf("reading: got %d items and %v, want 10 and %v", read, err, signal)
	}
	if err := file.Close(); err != nil {
		t.Error(err)
	}
	if _, err := backup.Open(ctx, path); !errors.Is(err, signal) {
		t.Errorf("opening: got %v, want %v", err, signal)
	}
}

// failing is an exporter that fails after its items.
type failing struct{ items }

var errFailed = errors.New("the disk failed")

func (f failing) Export(ctx context.Context, write func(store.Item) error) error {
	return errors.Join(f.items.Export(ctx, write), errFailed)
}

// An export that fails or is canceled never leaves a file that looks complete.
func TestInterruptedExport(t *testing.T) {
	t.Parallel()
	all, _ := sample(t)
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	for name, test := range map[string]struct {
		ctx  context.Context
		from store.Exporter
		want error
	}{
		"failed":        {t.Context(), failing{all}, errFailed},
		"canceled":      {canceled, all, context.Canceled},
		"an empty item": {t.Context(), items{{}}, nil},
	} {
		var out bytes.Buffer
		err := backup.Write(test.ctx, &out, at, test.from)
		if err == nil || test.want != nil && !errors.Is(err, test.want) {
			t.Errorf("%s: got %v, want %v", name, err, test.want)
		}
		if _, _, err := read(filepath.Join(t.TempDir(), "backup"), out.Bytes()); err == nil {
			t.Errorf("%s: the file is accepted", name)
		}
	}
}

// All that a store has can be read again.
func TestBackupOfStore(t *testing.T) {
	t.Parallel()
	opened, err := badgerstore.Open(t.TempDir(), badgerstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := opened.Close(); err != nil {
			t.Error(err)
		}
	})
	storetest.Fill(t, opened)
	var out bytes.Buffer
	if err := backup.Write(context.Background(), &out, time.Now(), opened); err != nil {
		t.Fatal(err)
	}
	got, _, err := read(filepath.Join(t.TempDir(), "backup"), out.Bytes())
	if want := storetest.Export(t, opened); err != nil || len(got) != len(want) {
		t.Errorf("got %d items, %v, want %d", len(got), err, len(want))
	}
}
