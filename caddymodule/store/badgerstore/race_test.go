//go:build race

package badgerstore_test

// slowdown is what the race detector costs Badger, about.
const slowdown = 10
