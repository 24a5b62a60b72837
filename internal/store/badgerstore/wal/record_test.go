package wal

import (
	"bytes"
	"encoding/binary"
	"os"
	"slices"
	"testing"
)

// sample returns a segment with a few records and a few zeros after them, and
// where each record begins. Its header has that size.
func sample(t testing.TB) (data []byte, begins []int) {
	t.Helper()
	dir := t.TempDir()
	l, _ := openLog(t, dir, 0, options())
	for n := range 8 {
		begins = append(begins, l.at)
		add(t, l, string(bytes.Repeat([]byte{byte(n + 1)}, 1+n*n*n*5)))
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
func inspectData(data []byte, number uint64) (records int, ended bool, err error) {
	return inspect(&window{file: bytes.NewReader(data), size: len(data)}, number)
}

// wantRecords checks how many records the inspection finds; -1 is a refusal.
func wantRecords(t *testing.T, data []byte, want int, format string, args ...any) {
	t.Helper()
	got, _, err := inspectData(data, 1)
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
	all := len(begins) - 1
	wantRecords(t, data, all, "intact")
	for n := range all {
		torn := slices.Clone(data)
		clear(torn[begins[n]:])
		wantRecords(t, torn, n, "without record %d", n)
		for at := begins[n] + wordSize; at < begins[n+1]; at++ {
			torn[at] = data[at]
			wantRecords(t, torn, n, "record %d torn at byte %d", n, at)
		}
	}
}

// TestFlippedAnywhere: every changed bit is detected, except in the padding of
// a record.
func TestFlippedAnywhere(t *testing.T) {
	t.Parallel()
	data, begins := sample(t)
	all := len(begins) - 1
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
	for n := range all {
		w := &window{file: bytes.NewReader(data), size: len(data)}
		record, _, err := recordAt(w, 1, begins[n])
		if err != nil {
			t.Fatal(err)
		}
		end := begins[n] + wordSize + len(record)
		check(begins[n], end, -1)
		check(end, begins[n+1], all)
	}
	check(begins[all], begins[all]+wordSize, -1) // where the next word would stand
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

// TestZeroedAnywhere: a lost page is detected, unless all records after it are
// lost, too.
func TestZeroedAnywhere(t *testing.T) {
	t.Parallel()
	data, begins := sample(t)
	last := begins[len(begins)-2]
	for at := headerSize; at < last; at += wordSize {
		gone := slices.Clone(data)
		clear(gone[at:min(at+256, last)])
		wantRecords(t, gone, -1, "256 bytes from byte %d zeroed", at)
	}
}

// TestPowerLost: a loss of power may lose any sectors of the last record, which
// no caller was told is synced. Damage to a record before it is refused.
func TestPowerLost(t *testing.T) {
	t.Parallel()
	data, begins := sample(t)
	all := len(begins) - 1
	sectors := func(n int) (list []int) {
		for at := begins[n] / sectorSize * sectorSize; at < begins[n+1]-wordSize; at += sectorSize {
			list = append(list, max(at, begins[n]))
		}
		return list
	}
	for _, at := range sectors(all - 1) {
		lost := slices.Clone(data)
		clear(lost[at:min(at/sectorSize*sectorSize+sectorSize, begins[all])])
		wantRecords(t, lost, all-1, "the last record without its sector at byte %d", at)
	}
	for _, at := range sectors(all - 2) {
		lost := slices.Clone(data)
		clear(lost[at:min(at/sectorSize*sectorSize+sectorSize, begins[all-1])])
		wantRecords(t, lost, -1, "the record before it without its sector at byte %d", at)
	}
}

// TestMisplaced: a record is valid only at its own place.
func TestMisplaced(t *testing.T) {
	t.Parallel()
	data, begins := sample(t)
	moved := slices.Clone(data)
	end := begins[len(begins)-1]
	copy(moved[end:], data[begins[0]:begins[1]])
	wantRecords(t, moved, -1, "the first record again at the end")
	if _, _, err := inspectData(data, 2); err == nil {
		t.Errorf("a segment under another number is not noticed")
	}
}

// TestEnd: data after the end of a segment is refused.
func TestEnd(t *testing.T) {
	t.Parallel()
	data, begins := sample(t)
	end := begins[len(begins)-1]
	binary.LittleEndian.PutUint64(data[end:], word(1, end, endMark, nil))
	if n, ended, err := inspectData(data, 1); n != len(begins)-1 || !ended || err != nil {
		t.Errorf("an ended segment: got %d records, %v, %v", n, ended, err)
	}
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
		_, _, _ = inspectData(data, 1)
	})
}
