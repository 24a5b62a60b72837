package gate

import (
	"testing"
	"unsafe"
)

// TestMemoryOfCall: a call and the 8 bytes that Go puts before it take 1 KiB. With
// one more field, Go would take the next size, 1,152 bytes.
func TestMemoryOfCall(t *testing.T) {
	t.Parallel()
	if size := unsafe.Sizeof(Call{}) + 8; size > 1024 {
		t.Errorf("a call takes %d bytes, want at most 1024", size)
	}
}
