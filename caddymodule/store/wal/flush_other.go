//go:build !linux

package wal

func newFlusher() flusher { return direct{} }
