package caddymodule

import "testing"

// LowerReserve lowers the least free space of the disk, for small disks. It is
// for tests that do not run in parallel.
func LowerReserve(t testing.TB, bytes uint64) {
	before := reserve
	reserve = bytes
	t.Cleanup(func() { reserve = before })
}
