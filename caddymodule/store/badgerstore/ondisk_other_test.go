//go:build !linux

package badgerstore_test

// runOnDisk is for Linux only.
func runOnDisk(string, string) {}
