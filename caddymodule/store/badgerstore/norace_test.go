//go:build !race

package badgerstore_test

// slowdown is what the race detector would cost Badger.
const slowdown = 1
