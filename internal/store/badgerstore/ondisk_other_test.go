//go:build !linux

package badgerstore_test

// These children are for tests on Linux.
func runOnDisk(string, string) {}
func runPower(string, string)  {}
