package wal

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"
)

// sample returns a segment with a few records, a mark that they are all on the
// disk, and a few zeros after it. It also returns where each of them begins and the
// mark ends. The header has that size.
func sample(t testing.TB) (data []byte, begins []int) {
	t.Helper()
	dir := t.TempDir()
	l, _ := openLog(t, dir, 0, options())
	for n := range 8 {
		begins = append(begins, l.at)
		add(t, l, string(bytes.Repeat([]byte{byte(n + 1)}, 1+n*n*n*5)))
	}
	begins = append(begins, l.at)
	if err := errors.Join(l.Sync(), l.Mark()); err != nil {
		t.Fatalf("marking: %v", err)
	}
	data, err := os.ReadFile(segmentPath(dir, 1))
	if err != nil {
		t.Fatalf("reading: %v", err)
	}
	data = data[:l.at+4096]
	copy(data, header(1, len(data)))
	return data, append(begins, l.at)
}

// inspectData inspects data as the segment with a number.
func inspectData(data []byte, number uint64) (*Segment, error) {
	s := &Segment{Number: number}
	return s, s.inspect(&window{file: bytes.NewReader(data), size: len(data)})
}

// wantRecords checks how many records the inspection finds; -1 is a refusal.
func wantRecords(t *testing.T, data []byte, want int, format string, args ...any) {
	t.Helper()
	s, err := inspectData(data, 1)
	got := s.records
	if err != nil {
		got = -1
	}
	if got != want {
		t.Errorf(format+": got %d records, %v, want %d", append(args, got, err, want)...)
	}
}

// TestTornAnywhere: a crash may lose any part of the last record, its word too.
func TestTornAnywhere(t *testing.T) {
	t.Parallel()
	data, begins := sample(t)
	wantRecords(t, data, 8, "intact")
	for n := range 8 {
		torn := slices.Clone(data)
		clear(torn[begins[n]:])
		wantRecords(t, torn, n, "without record %d", n)
		for at := begins[n] + wordSize; at < begins[n+1]; at++ {
			torn[at] = data[at]
			wantRecords(t, torn, n, "record %d torn at byte %d", n, at)
		}
	}
}

// TestFlippedAnywhere: each changed bit before the last mark is detected. In the mark
// it costs no record.
func TestFlippedAnywhere(t *testing.T) {
	t.Parallel()
	data, begins := sample(t)
	check := func(from, to, want int) {
		for at := from; at < to; at++ {
			for bit := range 8 {
				data[at] ^= 1 << bit
				wantRecords(t, data, want, "bit %d of byte %d flipped", bit, at)
				data[at] ^= 1 << bit
			}
		}
	}
	check(0, headerSize, -1)
	check(headerSize, begins[8], -1)
	check(begins[8], begins[9]+headSize, 8) // the mark, and where the next record would be
}

// TestCutAnywhere: a file that is too short is refused.
func TestCutAnywhere(t *testing.T) {
	t.Parallel()
	data, _ := sample(t)
	for size := range data {
		wantRecords(t, data[:size], -1, "cut to %d bytes", size)
	}
	wantRecords(t, append(data, 0), -1, "a byte too many")
}

// TestZeroedAnywhere: a lost page before the last mark is detected.
func TestZeroedAnywhere(t *testing.T) {
	t.Parallel()
	data, begins := sample(t)
	for at := headerSize; at < begins[8]; at += wordSize {
		gone := slices.Clone(data)
		clear(gone[at:min(at+256, begins[8])])
		wantRecords(t, gone, -1, "256 bytes from byte %d zeroed", at)
	}
}

// TestPowerLost: a loss of power may lose any pages of what was not on the disk.
// The segment ends before them, and tells when that was written.
func TestPowerLost(t *testing.T) {
	t.Parallel()
	const synced, records = 20, 60
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 1))
		dir := t.TempDir()
		l, _ := openLog(t, dir, 0, options())
		var ends []int
		for n := range records {
			add(t, l, string(bytes.Repeat([]byte{byte(n + 1)}, 1+random.IntN(300))))
			ends = append(ends, l.at)
			if n == synced-1 {
				if err := l.Sync(); err != nil {
					t.Fatal(err)
				}
			}
		}
		unit := []int{wordSize, 512, 4096}[random.IntN(3)]
		lost := l.at // the first byte that is
		for at := ends[synced-1]; at < l.at; at = (at/unit + 1) * unit {
			if end := min((at/unit+1)*unit, l.at); random.IntN(4) == 0 {
				if _, err := l.file.WriteAt(make([]byte, end-at), int64(at)); err != nil {
					t.Fatal(err)
				}
				lost = min(lost, at)
			}
		}
		left, err := Scan(dir, 1)
		if err != nil {
			t.Errorf("seed %d: %v", seed, err)
			continue
		}
		want := synced
		for want < records && ends[want] <= lost {
			want++
		}
		// A lost word can be padding, or have been zero before.
		if got := left[0].records; got < want {
			t.Errorf("seed %d: got %d records, want %d", seed, got, want)
		}
		if torn := left[0].Torn(); torn != nil && (torn.At != ends[left[0].records-1] || torn.Since.IsZero() || torn.Until.Before(torn.Since) && !torn.Until.IsZero()) {
			t.Errorf("seed %d: %+v", seed, torn)
		}
	}
}

// TestMark: a mark is written once after a sync, and with the next record.
func TestMark(t *testing.T) {
	t.Parallel()
	l, _ := openLog(t, t.TempDir(), 0, options())
	check := func(what string, want int) {
		t.Helper()
		before := l.at
		if err := l.Mark(); err != nil || l.at-before != want {
			t.Errorf("%s: %d bytes, %v, want %d", what, l.at-before, err, want)
		}
	}
	check("without records", 0)
	add(t, l, "a")
	check("not on the disk", 0)
	for range 2 {
		if err := l.Sync(); err != nil {
			t.Fatal(err)
		}
		check("on the disk", headSize)
		if err := l.Sync(); err != nil {
			t.Fatal(err)
		}
		check("marked", 0)
		add(t, l, "b")
	}
}

// TestMisplaced: a record is valid only at its own place.
func TestMisplaced(t *testing.T) {
	t.Parallel()
	data, begins := sample(t)
	moved := slices.Clone(data)
	copy(moved[begins[9]:], data[begins[0]:begins[1]])
	wantRecords(t, moved, 8, "the first record again at the end")
	if _, err := inspectData(data, 2); err == nil {
		t.Errorf("a segment under another number is not noticed")
	}
}

// TestEnd: data after the end of a segment is refused, and so is a fault before it.
func TestEnd(t *testing.T) {
	t.Parallel()
	data, begins := sample(t)
	end := begins[8]
	clear(data[end:])
	copy(data[end:], appendRecord(nil, 1, end, endMark, newMark(time.Now(), end), nil))
	if s, err := inspectData(data, 1); s.records != 8 || !s.ended || err != nil {
		t.Errorf("an ended segment: got %d records, %v, %v", s.records, s.ended, err)
	}
	data[begins[3]] ^= 1
	wantRecords(t, data, -1, "a fault before the end")
	// The end can be on the disk before what a sync was to write with it.
	copy(data[end:], appendRecord(nil, 1, end, endMark, newMark(time.Now(), headerSize), nil))
	wantRecords(t, data, 3, "a loss of power before the end was synced")
	data[begins[3]] ^= 1
	data[len(data)-1] = 1
	wantRecords(t, data, -1, "data behind the end")
}

// FuzzInspect: any file is read within its bounds.
func FuzzInspect(f *testing.F) {
	data, begins := sample(f)
	f.Add(data)
	f.Add(data[:begins[3]])
	f.Add(make([]byte, 100))
	f.Fuzz(func(_ *testing.T, data []byte) {
		if len(data) >= headerSize {
			copy(data, header(1, len(data)))
		}
		_, _ = inspectData(data, 1)
	})
}
