package backup

import (
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/store/book"
)

// Dumper is a book.Book.
type Dumper interface {
	Dump(ctx context.Context, write func(book.Piece) error) error
}

// Write writes a backup of all that a book keeps. at is a time before the
// call: all calls admitted before it are in the backup. After an error, what
// it wrote is not a complete backup, and Open refuses it.
func Write(ctx context.Context, w io.Writer, at time.Time, from Dumper) error {
	packed, sum := gzip.NewWriter(w), sha256.New()
	to := io.MultiWriter(packed, sum)
	write := func(value any) error {
		line, err := json.Marshal(value)
		if err != nil {
			return fmt.Errorf("encoding a row: %w", err)
		}
		if line = append(line, '\n'); len(line) > maxLine {
			return fmt.Errorf("a row has %d bytes, at most %d are allowed", len(line), maxLine)
		}
		_, err = to.Write(line)
		return err
	}
	if err := write(header{version, at.UTC()}); err != nil {
		return err
	}
	rows := int64(0)
	err := from.Dump(ctx, func(p book.Piece) error {
		// A store on a local disk may ignore the context.
		if err := context.Cause(ctx); err != nil {
			return err
		}
		rows++
		return write(p)
	})
	if err != nil {
		return fmt.Errorf("reading the store: %w", err)
	}
	if err := write(trailer{rows, hex.EncodeToString(sum.Sum(nil))}); err != nil {
		return err
	}
	return packed.Close()
}
