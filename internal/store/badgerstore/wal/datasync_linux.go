package wal

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// dataSync writes a file's data to the disk, with the metadata that is needed
// to read them.
func dataSync(f *os.File) error {
	for {
		if err := unix.Fdatasync(int(f.Fd())); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
