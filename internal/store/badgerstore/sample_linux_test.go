package badgerstore_test

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// eachPart reads what lies between the holes of a file, and returns its size.
func eachPart(path string, do func(part []byte, at int64) error) (size int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	for at := int64(0); ; {
		at, err = f.Seek(at, unix.SEEK_DATA)
		end := at
		if err == nil {
			end, err = f.Seek(at, unix.SEEK_HOLE)
		}
		if errors.Is(err, unix.ENXIO) { // none is left
			return f.Seek(0, io.SeekEnd)
		}
		if err != nil {
			return 0, err
		}
		part := make([]byte, end-at)
		n, err := f.ReadAt(part, at)
		if err == nil || errors.Is(err, io.EOF) {
			err = do(part[:n], at)
		}
		if err != nil {
			return 0, err
		}
		at = end
	}
}
