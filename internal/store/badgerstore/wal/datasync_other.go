//go:build !linux

package wal

import "os"

// dataSync writes a file's data to the disk.
func dataSync(f *os.File) error { return f.Sync() }
