//go:build !linux || 386 || arm || mipsle

package badgerstore_test

// This child is for tests on Linux. Its file system does
// not build for 32 bits.
func runPower(string, string) {}
