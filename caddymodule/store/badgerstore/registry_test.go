package badgerstore_test

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
)

// maxCost is how much more memory a damaged store may allocate than an
// intact one before it is refused, in bytes.
const maxCost = 64 << 20

// allocated is how much memory fn allocates. It is right only while nothing
// else runs, so tests that use it do not run beside others.
func allocated(fn func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	fn()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestKeyRegistry: Badger takes a length from its list of encryption keys
// and allocates that much. A list that is not the one of a store without
// encryption is refused before that.
func TestKeyRegistry(t *testing.T) {
	crashed := crashedStore(t)
	tests := []struct {
		name, want string
		change     func([]byte) []byte // nil removes the file
	}{
		{"missing", "complete", nil},
		{"other random bytes", "complete", func(d []byte) []byte { d[3]++; return d }},
		{"empty", "refused", func([]byte) []byte { return nil }},
		{"cut to 20 bytes", "refused", func(d []byte) []byte { return d[:20] }},
		{"cut by a byte", "refused", func(d []byte) []byte { return d[:len(d)-1] }},
		{"another text", "refused", func(d []byte) []byte { d[20]++; return d }},
		{"a key of 4 GiB behind", "refused", func(d []byte) []byte { return append(d, slices.Repeat([]byte{0xff}, 64)...) }},
		{"a key of 1 GiB behind", "refused", func(d []byte) []byte { return append(d, slices.Repeat([]byte{0x40}, 64)...) }},
		{"an empty key behind", "refused", func(d []byte) []byte { return append(d, make([]byte, 64)...) }},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			copyStore(t, crashed, dir)
			if test.change != nil {
				change(t, dir, "KEYREGISTRY", test.change)
			} else if err := os.Remove(filepath.Join(dir, "KEYREGISTRY")); err != nil {
				t.Fatal(err)
			}
			got := ""
			if cost := allocated(func() { got = verdict(t, dir) }); got == "refused" && cost > maxCost {
				t.Errorf("the refusal took %d MiB", cost>>20)
			}
			if got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}
