//go:build !race

package badgerstore

// Slowdown is what the race detector would cost Badger.
const Slowdown = 1
