//go:build race

package badgerstore

// Slowdown is what the race detector costs Badger, about.
const Slowdown = 10
