//go:build !linux

package badgerstore_test

// This child is for tests on Linux.
func runOnDisk(string, string) {}
