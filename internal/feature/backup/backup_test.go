package backup_test

import (
	"bufio"
	"bytes"
	"cmp"
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
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	diff "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/caddy-tollgate/tollgate/internal/calendar"
	"github.com/caddy-tollgate/tollgate/internal/feature/backup"
	"github.com/caddy-tollgate/tollgate/internal/policy"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
	"github.com/caddy-tollgate/tollgate/internal/store/storetest"
	"github.com/caddy-tollgate/tollgate/internal/token"
)

// pieces are a store that has them.
type pieces []book.Piece

func (all pieces) Dump(_ context.Context, write func(book.Piece) error) error {
	for _, p := range all {
		if err := write(p); err != nil {
			return err
		}
	}
	return nil
}

// first is the first line of a file.
const first = `{"tollgate_backup":3,"at":"2026-11-23T10:00:00Z"}`

var at = time.Date(2026, 11, 23, 10, 0, 0, 123456789, time.UTC)

func write(t testing.TB, all pieces) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := backup.Write(context.Background(), &out, at, all); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// read opens a file with this content and returns all pieces.
func read(path string, content []byte) (all pieces, file *backup.File, err error) {
	if err := os.WriteFile(path, content, 0o600); err != nil {
		return nil, nil, err
	}
	if file, err = backup.Open(context.Background(), path); err != nil {
		return nil, nil, err
	}
	defer file.Close()
	for p, err := range file.Pieces(context.Background()) {
		if err != nil {
			return nil, nil, err
		}
		all = append(all, p)
	}
	return all, file, nil
}

// difference returns how the pieces of a file differ from those that a store
// must keep.
func difference(t require, want, got pieces) string {
	t.Helper()
	return diff.Diff(values(t, want), values(t, got), cmpopts.EquateEmpty(), cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{}))
}

// require is what tests have, and those of package rapid.
type require interface {
	Helper()
	Fatal(args ...any)
}

// value is what a piece has.
type value struct {
	Space   book.Space
	Key     string
	Expires time.Time
	Of      any
}

func values(t require, all pieces) (list []value) {
	t.Helper()
	for _, p := range all {
		of, err := p.Value()
		if err != nil {
			t.Fatal(err)
		}
		v := value{Space: p.Space, Of: of}
		if p.Row != nil {
			v.Key, v.Expires = p.Row.Key, p.Row.Expires
		}
		list = append(list, v)
	}
	return list
}

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "backup")
	rapid.Check(t, func(t *rapid.T) {
		want := pieces(rapid.SliceOf(aPiece()).Draw(t, "pieces"))
		var out bytes.Buffer
		if err := backup.Write(context.Background(), &out, at, want); err != nil {
			t.Fatal(err)
		}
		got, file, err := read(path, out.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		if differs := difference(t, want, got); differs != "" {
			t.Fatalf("(-want +got):\n%s", differs)
		}
		accounts, keys := int64(0), int64(0)
		for _, p := range want {
			if p.Document != nil {
				accounts++
				keys += int64(len(p.Document.Keys))
			}
		}
		if !file.At.Equal(at) || file.Size != int64(out.Len()) || file.Rows != int64(len(want)) || file.Accounts != accounts || file.Keys != keys {
			t.Fatalf("got %+v", file)
		}
	})
}

// aPiece generates pieces of all kinds, with all values that a gate can write.
func aPiece() *rapid.Generator[book.Piece] {
	word := rapid.StringMatching(`[A-Za-z][A-Za-z0-9_.-]{0,63}`)
	accountID := rapid.OneOf(rapid.StringMatching(`[A-Za-z0-9_@-][A-Za-z0-9._@-]{0,63}`), rapid.SampledFrom([]string{"..a", "-", "ada@example.com"}))
	optional := func(g *rapid.Generator[string]) *rapid.Generator[string] { return rapid.OneOf(rapid.Just(""), g) }
	// With control characters and what HTML escapes.
	text := func(most int) *rapid.Generator[string] {
		return rapid.OneOf(rapid.StringN(0, most, -1), rapid.SampledFrom([]string{"\x00", "\x00ff", "</script>\u2028", strings.Repeat("\U0001f600", most)}))
	}
	instant := rapid.Custom(func(t *rapid.T) time.Time {
		if rapid.Bool().Draw(t, "zero") {
			return time.Time{}
		}
		return time.Unix(rapid.Int64Range(0, 1<<33).Draw(t, "seconds"), rapid.Int64Range(0, 999_999_999).Draw(t, "nanoseconds")).UTC()
	})
	day := rapid.Custom(func(t *rapid.T) calendar.Day { return calendar.Day(rapid.Int32Range(-1, 100_000).Draw(t, "day")) })
	number := rapid.Int64Range(0, 1<<53)
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
	document := rapid.SampledFrom([]json.RawMessage{nil, json.RawMessage(`{"plan":"free","label":null}`), json.RawMessage(`null`)})
	key := rapid.Custom(func(t *rapid.T) *book.Key {
		k := &book.Key{Key: store.Key{
			ID: word.Draw(t, "id"), Kind: rapid.SampledFrom([]token.Kind{token.Key, token.Login}).Draw(t, "kind"), Name: text(64).Draw(t, "name"),
			Abilities: rapid.SliceOfN(word, 0, 3).Draw(t, "abilities"), Hint: text(8).Draw(t, "hint"), CreatedAt: instant.Draw(t, "created"),
			ExpiresAt: instant.Draw(t, "expires"), RevokedAt: instant.Draw(t, "revoked"), Limits: limits(3).Draw(t, "limits"),
			Addresses: rapid.SliceOfN(prefix, 0, store.MaxAddresses).Draw(t, "addresses"), Root: optional(word).Draw(t, "root"),
		}}
		for i := range k.Limits {
			k.Limits[i].OfKey = true
		}
		copy(k.Hash[:], rapid.SliceOfN(rapid.ByteMin(1), 32, 32).Draw(t, "hash"))
		return k
	})
	call := rapid.Custom(func(t *rapid.T) store.Record {
		return store.Record{
			Key: optional(word).Draw(t, "key"), KeyName: text(64).Draw(t, "name"), At: instant.Draw(t, "at"), Endpoint: word.Draw(t, "endpoint"),
			Method: "GET", Path: text(200).Draw(t, "path"), Status: rapid.IntRange(100, 999).Draw(t, "status"),
			Duration: time.Duration(rapid.Int64().Draw(t, "duration")), Code: optional(word).Draw(t, "code of the refusal"),
		}
	})
	return rapid.Custom(func(t *rapid.T) (p book.Piece) {
		id, account := word.Draw(t, "id"), accountID.Draw(t, "account")
		row := func(space book.Space, key string, value any) book.Piece {
			return fromJSON(t, map[string]any{"row": map[string]any{
				"account": space.Account, "space": space.Name, "key": key, "value": value, "expires": instant.Draw(t, "expires"),
			}})
		}
		events := book.Space{Name: "events"}
		switch rapid.IntRange(0, 8).Draw(t, "kind") {
		case 0:
			p.Document = &book.Account{Exists: true, Account: store.Account{
				ID: account, Plan: word.Draw(t, "plan"), Label: text(200).Draw(t, "label"), Disabled: rapid.Bool().Draw(t, "disabled"), CreatedAt: instant.Draw(t, "created"),
			}}
			for _, l := range limits(rapid.SampledFrom([]int{3, store.MaxOverrides}).Draw(t, "overrides")).Draw(t, "limits") {
				p.Document.Overrides = append(p.Document.Overrides, store.Override{
					Limit: l, ExpiresAt: instant.Draw(t, "expires"), Reason: text(200).Draw(t, "reason"), CreatedAt: instant.Draw(t, "created"),
				})
			}
			p.Document.Keys = rapid.SliceOfNDistinct(key, 0, 4, func(k *book.Key) string { return k.ID }).Draw(t, "keys")
			for _, k := range p.Document.Keys {
				k.Account = account
			}
			slices.SortFunc(p.Document.Keys, func(k, l *book.Key) int {
				return cmp.Or(k.CreatedAt.Compare(l.CreatedAt), strings.Compare(k.ID, l.ID))
			})
		case 1:
			p.Count = &store.StoredCount{Account: account, Key: optional(word).Draw(t, "key"),
				Count: store.Count{Day: day.Draw(t, "day"), Endpoint: id, Used: number.Draw(t, "used")}}
		case 2:
			p = row(book.Space{Account: account}, "calls", rapid.SliceOfN(call, 0, 3).Draw(t, "calls"))
		case 3:
			p = row(book.Space{Account: account}, "uses", rapid.MapOfN(word, rapid.Custom(func(t *rapid.T) book.LastUse {
				return book.LastUse{At: instant.Draw(t, "used"), From: address.Draw(t, "from")}
			}), 0, 3).Draw(t, "uses"))
		case 4:
			p = row(book.Space{Account: account}, "ended "+id, true)
		case 5:
			parts := []string{optional(accountID).Draw(t, "account"), optional(word).Draw(t, "endpoint"), word.Draw(t, "code")}
			if reason := optional(word).Draw(t, "reason"); reason != "" {
				parts = append(parts, reason)
			}
			p = row(book.Space{Name: "refused " + day.Draw(t, "day").String()}, strings.Join(parts, "\x00"), number.Draw(t, "calls"))
		case 6:
			p = fromJSON(t, map[string]any{"audit": store.Entry{
				ID: store.EntryID{Milliseconds: rapid.Int64Range(0, 1<<43).Draw(t, "ms"), Number: rapid.Int64Range(0, 1<<52).Draw(t, "number")},
				At: instant.Draw(t, "at"), ActorKind: rapid.SampledFrom([]string{"admin", "application", "person"}).Draw(t, "kind of actor"),
				ActorID: text(200).Draw(t, "actor"), Action: word.Draw(t, "action"), Account: optional(accountID).Draw(t, "account"), Target: text(200).Draw(t, "target"),
				Reason: text(200).Draw(t, "why"), Before: document.Draw(t, "before"), After: document.Draw(t, "after"),
			}})
		case 7:
			e := store.Event{
				ID: id, Type: optional(word).Draw(t, "type"), At: instant.Draw(t, "at"), Body: json.RawMessage(`{"type":"x"}`),
				Known: instant.Draw(t, "known"),
			}
			p = row(events, fmt.Sprintf("q %020d %s", max(0, e.At.UnixNano()), id), e)
			p.Row.Expires = time.Time{}
		case 8:
			p = rapid.SampledFrom([]book.Piece{row(events, "k "+id, ""), row(events, "c", []int64{1 << 40, 3, 1 << 60})}).Draw(t, "row")
		}
		return p
	})
}

func fromJSON(t require, value any) (p book.Piece) {
	t.Helper()
	text, err := json.Marshal(value)
	if err == nil {
		err = json.Unmarshal(text, &p)
	}
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// sample is a backup, and what a store must keep of it.
func sample(t testing.TB) (pieces, []byte) {
	t.Helper()
	var all pieces
	for n := range 80 {
		all = append(all, aPiece().Example(n))
	}
	return all, write(t, all)
}

// A disk or a person changes a file. Bits without a meaning exist in its
// compressed form only: such a file has the same pieces.
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
		if got, _, err := read(path, changed); err == nil && difference(t, want, got) != "" {
			t.Errorf("one bit of byte %d of %d flipped: other pieces are accepted", n, len(intact))
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
	if got, _, err := read(filepath.Join(t.TempDir(), "backup"), pack(t, first, row, "end")); err != nil || len(got) != 1 || got[0].Document.ID != "a" {
		t.Fatalf("got %v, %v", got, err)
	}
	for name, test := range map[string]struct {
		lines []string
		want  string
	}{
		"another version":   {[]string{`{"tollgate_backup":1,"at":"2026-11-23T10:00:00Z"}`, "end"}, "unknown version of the backup: 1; this program reads version 3"},
		"not a backup":      {[]string{`{"some":"thing"}`}, "no header"},
		"an unknown header": {[]string{`{"tollgate_backup":3,"at":"2026-11-23T10:00:00Z","x":1}`, "end"}, "no valid header"},
		"no last line":      {[]string{first, row}, "it has no end"},
		"a wrong number":    {[]string{first, row, `{"rows":2,"sha256":""}`}, "it has 1 rows instead of 2"},
		"a wrong checksum":  {[]string{first, row, `{"rows":1,"sha256":""}`}, "its checksum is wrong"},
		"an unknown end":    {[]string{first, row, `{"rows":1,"sha256":"","x":1}`}, "its last line is invalid"},
		"an unknown kind":   {[]string{first, `{"team":{}}`, "end"}, `row 1: json: unknown field "team"`},
		"an unknown member": {[]string{first, `{"account":{"id":"a","plan":"free","x":1}}`, "end"}, `unknown field "x"`},
		"two kinds":         {[]string{first, `{"account":{"id":"a"},"count":{"day":"2026-11-23"}}`, "end"}, "unknown kind of data"},
		"no kind":           {[]string{first, `{}`, "end"}, "unknown kind of data"},
		"two values":        {[]string{first, row + row, "end"}, "after top-level value"},
		"an invalid hash":   {[]string{first, `{"account":{"id":"a","plan":"free","keys":[{"id":"k","hash":"00"}]}}`, "end"}, "64 hexadecimal digits"},
		"no key":            {[]string{first, `{"account":{"id":"a","plan":"free","keys":[null]}}`, "end"}, "unknown kind of data"},
		"an unknown period": {[]string{first, `{"account":{"id":"a","overrides":[{"endpoint":"x","period":"fortnight","limit":1}]}}`, "end"}, `unknown period "fortnight"`},
		"an unknown row":    {[]string{first, `{"row":{"account":"a","key":"x","value":1}}`, "end"}, "unknown kind of data"},
		"an invalid day":    {[]string{first, `{"count":{"account":"a","day":"2026-02-30","endpoint":"x","used":1}}`, "end"}, `"2026-02-30" is not a date`},
		"a negative limit":  {[]string{first, `{"account":{"id":"a","overrides":[{"endpoint":"x","period":"day","limit":-1}]}}`, "end"}, `row 1: account a: a value is damaged: a limit of "x"`},
		"no period":         {[]string{first, `{"account":{"id":"a","overrides":[{"endpoint":"x","limit":1}]}}`, "end"}, `a limit of "x"`},
		"another event":     {[]string{first, `{"row":{"space":"events","key":"q 00000000000000000000 e","value":{"id":"f","at":"1970-01-01T00:00:00Z"}}}`, "end"}, "another event"},
		"an index":          {[]string{first, `{"row":{"space":"events","key":"d 00000000000000000000 e","value":""}}`, "end"}, "unknown kind of data"},
		"an invalid id":     {[]string{first, `{"audit":{"id":"x","actor_kind":"admin","action":"key.create"}}`, "end"}, "not found"},
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

// A signal ends the verification of a file, and the reading of its pieces.
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
	for _, err = range file.Pieces(ctx) {
		if read++; read == 10 {
			interrupt(signal)
		}
	}
	if !errors.Is(err, signal) || read != 11 {
		t.Errorf("reading: got %d pieces and %v, want 10 and %v", read, err, signal)
	}
	if err := file.Close(); err != nil {
		t.Error(err)
	}
	if _, err := backup.Open(ctx, path); !errors.Is(err, signal) {
		t.Errorf("opening: got %v, want %v", err, signal)
	}
}

// failing is a store that fails after its pieces.
type failing struct{ pieces }

var errFailed = errors.New("the disk failed")

func (f failing) Dump(ctx context.Context, write func(book.Piece) error) error {
	return errors.Join(f.pieces.Dump(ctx, write), errFailed)
}

// A dump that fails or is canceled never leaves a file that looks complete.
func TestInterruptedDump(t *testing.T) {
	t.Parallel()
	all, _ := sample(t)
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	for name, test := range map[string]struct {
		ctx  context.Context
		from backup.Dumper
		want error
	}{
		"failed":         {t.Context(), failing{all}, errFailed},
		"canceled":       {canceled, all, context.Canceled},
		"an empty piece": {t.Context(), pieces{{}}, nil},
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

// TestEachMemberIsInABackup: what engines keep of a type is also in its JSON.
func TestEachMemberIsInABackup(t *testing.T) {
	t.Parallel()
	for _, of := range []any{store.Account{}, store.Override{}, store.Limit{}, store.Key{}, book.Key{}, store.Record{}, store.Entry{}, store.Event{}, book.LastUse{}} {
		for _, member := range reflect.VisibleFields(reflect.TypeOf(of)) {
			if kept := member.Tag.Get("cbor"); kept != "" && kept != "-" && strings.Trim(member.Tag.Get("json"), "-") == "" {
				t.Errorf("%T: no backup has its member %s", of, member.Name)
			}
		}
	}
}

// TestLargestRows: the largest rows that a gate writes have half of the
// maximum length at most.
func TestLargestRows(t *testing.T) {
	t.Parallel()
	name := func(n int) string { return fmt.Sprintf("%s%03d", strings.Repeat("x", 61), n) }
	text := func(n int) string { return strings.Repeat("<", n) } // six bytes each
	now := at.Truncate(time.Microsecond)
	limits := func(n int, ofKey bool) (list []store.Limit) {
		for i := range n {
			list = append(list, store.Limit{Endpoint: name(i), Period: store.Minute, Max: policy.MaxLimit, OfKey: ofKey})
		}
		return list
	}
	a := &book.Account{Exists: true, Account: store.Account{ID: name(0), Plan: name(0), Label: text(store.MaxLabel), CreatedAt: now}}
	for _, l := range limits(store.MaxOverrides, false) {
		a.Overrides = append(a.Overrides, store.Override{Limit: l, ExpiresAt: now, Reason: text(200), CreatedAt: now})
	}
	for n := range store.MaxLiveKeys + store.MaxEndedKeys + store.MaxLiveLogins + store.MaxEndedLogins {
		k := &book.Key{Key: store.Key{ID: name(n), Name: text(64), Hint: text(12), CreatedAt: now, ExpiresAt: now, RevokedAt: now, Root: name(n)}}
		if k.Kind = token.Key; n >= store.MaxLiveKeys+store.MaxEndedKeys {
			k.Kind = token.Login
		}
		k.Hash[0], k.Limits = 1, limits(store.MaxKeyLimits, true)
		for i := range store.MaxAddresses {
			k.Abilities = append(k.Abilities, name(i))
			k.Addresses = append(k.Addresses, netip.MustParsePrefix(fmt.Sprintf("2001:db8:ffff:ffff:ffff:ffff:ffff:%04x/128", 0x1000+i)))
		}
		a.Keys = append(a.Keys, k)
	}
	calls := make([]store.Record, store.MaxRecent)
	for i := range calls {
		calls[i] = store.Record{Key: name(i), KeyName: text(64), At: now, Endpoint: name(i), Method: "OPTIONS", Path: text(store.MaxPath), Status: 200, Code: name(i), Duration: math.MaxInt64}
	}
	row := fromJSON(t, map[string]any{"row": map[string]any{"account": name(0), "key": "calls", "value": calls}})
	for _, p := range (pieces{{Document: a}, row}) {
		line, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%d bytes", len(line))
		if len(line) > backup.MaxLine/2 {
			t.Errorf("a row has %d bytes, want at most %d", len(line), backup.MaxLine/2)
		}
	}
	if _, _, err := read(filepath.Join(t.TempDir(), "backup"), write(t, pieces{{Document: a}, row})); err != nil {
		t.Error(err)
	}
	// A longer row is refused by both sides.
	a.Label = text(backup.MaxLine / 6)
	if err := backup.Write(t.Context(), io.Discard, at, pieces{{Document: a}}); err == nil || !strings.Contains(err.Error(), "are allowed") {
		t.Errorf("writing: got %v", err)
	}
	long := pack(t, first, `{"account":{"id":"a","plan":"free","label":"`+strings.Repeat("x", backup.MaxLine)+`"}}`, "end")
	if _, _, err := read(filepath.Join(t.TempDir(), "backup"), long); !errors.Is(err, bufio.ErrTooLong) {
		t.Errorf("reading: got %v", err)
	}
}
