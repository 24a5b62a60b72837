package main

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// A faster machine has other times. The bench therefore measures what a time
// is compared with, near each value of a row:
//
//   - H: one SHA-256 of a token
//   - W: one write of 64 bytes to a file such as the log of a store
//   - P: one call through Caddy's proxy alone, on one connection
type timeUnit struct {
	name  string
	sizes values // in nanoseconds, one for each value of the row
}

func inH(sizes values) timeUnit { return timeUnit{"H", sizes} }
func inP(sizes values) timeUnit { return timeUnit{"P", sizes} }

// sampleBatches and batchSize are how many times a sample of H or W repeats
// its work. The median of the batches leaves out interruptions.
const sampleBatches, batchSize = 21, 500

// sample returns the usual duration of some work, in nanoseconds.
func sample(work func()) float64 {
	batches := make(values, sampleBatches)
	for i := range batches {
		began := time.Now()
		for range batchSize {
			work()
		}
		batches[i] = float64(time.Since(began)) / batchSize
	}
	return batches.median()
}

// tokenLength is the length of a token, in bytes.
const tokenLength = 53

// hashTime is H now.
func hashTime() float64 {
	text := make([]byte, tokenLength)
	return sample(func() {
		hash := sha256.Sum256(text)
		text[0] ^= hash[0] // each hash depends on the one before
	})
}

// writeTime is W now, in the directory of the stores. The file has its size
// already, as a segment of the log has.
func (b *bench) writeTime() (w float64, err error) {
	file, err := os.Create(filepath.Join(b.dir, "write"))
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, file.Close(), os.Remove(file.Name())) }()
	record := make([]byte, 64)
	if err := file.Truncate(int64(len(record) * batchSize * sampleBatches)); err != nil {
		return 0, err
	}
	var failure error
	w = sample(func() {
		if _, err := file.Write(record); err != nil {
			failure = err
		}
	})
	if failure != nil {
		return 0, fmt.Errorf("writing a record: %w", failure)
	}
	return w, nil
}
