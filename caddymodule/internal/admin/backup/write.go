package backup

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"io"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/store"
)

// Write writes a backup of all that a store keeps. at is a time before the
// call: all calls admitted before it are in the backup. After an error, what
// it wrote is not a complete backup, and Open refuses it.
func Write(ctx context.Context, w io.Writer, at time.Time, from store.Exporter) error {
	packed := gzip.NewWriter(w)
	lines := &writer{to: packed, sum: sha256.New()}
	if err := lines.write(header{version, at.UTC()}); err != nil {
		return err
	}
	rows := int64(0)
	err := from.Export(ctx, func(item store.Item) error {
		// A store on a local disk may ignore the context.
		if err := context.Cause(ctx); err != nil {
			return err
		}
		row, err := rowOf(item)
		if err != nil {
			return err
		}
		rows++
		return lines.write(row)
	})
	if err != nil {
		return fmt.Errorf("exporting the store: %w", err)
	}
	if err := lines.write(trailer{rows, hex.EncodeToString(lines.sum.Sum(nil))}); err != nil {
		return err
	}
	return packed.Close()
}

// writer writes lines and sums them up.
type writer struct {
	to   io.Writer
	sum  hash.Hash
	line bytes.Buffer
}

func (w *writer) write(value any) error {
	w.line.Reset()
	encoder := json.NewEncoder(&w.line)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return fmt.Errorf("encoding a row: %w", err)
	}
	if w.line.Len() > maxLine {
		return fmt.Errorf("a row has %d bytes, at most %d are allowed", w.line.Len(), maxLine)
	}
	w.sum.Write(w.line.Bytes())
	_, err := w.to.Write(w.line.Bytes())
	return err
}
