package backup

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"iter"
	"os"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/apierror"
	"github.com/caddy-tollgate/tollgate/internal/contract"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
)

// ErrDamaged means that a file is not a backup, is incomplete or was changed.
var ErrDamaged = errors.New("the file is not a complete backup")

// ErrVersion means that the file has another version of the format.
var ErrVersion = errors.New("unknown version of the backup")

// File is an open backup whose content was verified.
type File struct {
	// At is the instant of the backup: all calls admitted before it are in
	// it.
	At time.Time
	// Size is the size of the file, in bytes.
	Size int64
	// Rows is the number of lines between the first and the last one. Keys
	// includes login tokens, and keys that are revoked or expired.
	Rows, Accounts, Keys int64

	file *os.File
}

// Open opens a file and verifies all of it: the version, each row, the
// checksum, the number of rows, and that nothing follows. The error wraps
// ErrDamaged or ErrVersion if the file is not a backup that it can read.
func Open(ctx context.Context, path string) (*File, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("opening the backup: %w", err)
	}
	f := &File{file: file}
	if err := f.verify(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("reading %s: %w", path, err), file.Close())
	}
	return f, nil
}

func (f *File) verify(ctx context.Context) error {
	info, err := f.file.Stat()
	if err != nil {
		return err
	}
	f.Size = info.Size()
	return f.read(ctx, func(p book.Piece) bool {
		f.Rows++
		if p.Document != nil {
			f.Accounts++
			f.Keys += int64(len(p.Document.Keys))
		}
		return true
	})
}

// Pieces returns all that an engine must keep. It reads and verifies the file
// again; an error is the last element, as when the context ends.
func (f *File) Pieces(ctx context.Context) iter.Seq2[book.Piece, error] {
	return func(yield func(book.Piece, error) bool) {
		err := f.read(ctx, func(p book.Piece) bool { return yield(p, nil) })
		if err != nil && !errors.Is(err, errStopped) {
			yield(book.Piece{}, err)
		}
	}
}

// Close closes the file.
func (f *File) Close() error { return f.file.Close() }

// errStopped ends a loop over the pieces early.
var errStopped = errors.New("stopped")

// read reads the file from its beginning and verifies it.
func (f *File) read(ctx context.Context, yield func(book.Piece) bool) error {
	raw := bufio.NewReader(io.NewSectionReader(f.file, 0, f.Size))
	beginning, err := raw.Peek(len(gzipHeader))
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if !bytes.Equal(beginning, gzipHeader[:]) {
		return damaged("it does not begin as one")
	}
	unpacked, err := gzip.NewReader(raw)
	if err != nil {
		return damaged("%w", err)
	}
	unpacked.Multistream(false)
	lines := &reader{bufio.NewScanner(unpacked), sha256.New()}
	lines.Buffer(nil, maxLine)
	if f.At, err = lines.header(); err != nil {
		return err
	}
	if err := lines.rows(ctx, yield); err != nil {
		return err
	}
	if lines.Scan() {
		return damaged("a line follows its last one")
	}
	// The error has the checksum and the length of gzip.
	if err := lines.Err(); err != nil {
		return damaged("%w", err)
	}
	if _, err := raw.ReadByte(); !errors.Is(err, io.EOF) {
		return damaged("data follows its end")
	}
	return nil
}

// reader reads lines and sums them up.
type reader struct {
	*bufio.Scanner
	sum hash.Hash
}

// add adds the line to the checksum.
func (r *reader) add() {
	r.sum.Write(r.Bytes())
	r.sum.Write([]byte{'\n'})
}

// header reads the first line.
func (r *reader) header() (time.Time, error) {
	var first header
	if !r.Scan() || json.Unmarshal(r.Bytes(), &first) != nil || first.Version == 0 {
		return time.Time{}, r.damaged("it has no header")
	}
	if first.Version != version {
		return time.Time{}, fmt.Errorf("%w: %d; this program reads version %d: use the version of Tollgate that wrote the file",
			ErrVersion, first.Version, version)
	}
	// An unknown member needs a new version, so this file was changed.
	if apierror.Decode("the header", r.Bytes(), &first) != nil {
		return time.Time{}, damaged("it has no valid header")
	}
	r.add()
	return first.At, nil
}

// rows reads all rows and the last line.
func (r *reader) rows(ctx context.Context, yield func(book.Piece) bool) error {
	for n := int64(0); r.Scan(); n++ {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		line := r.Bytes()
		if bytes.HasPrefix(line, []byte(`{"rows":`)) {
			return r.trailer(n)
		}
		var p book.Piece
		err := json.Unmarshal(line, &p)
		if err == nil {
			err = check(p)
		}
		if err != nil {
			return damaged("row %d: %w", n+1, err)
		}
		r.add()
		if !yield(p) {
			return errStopped
		}
	}
	return r.damaged("it has no end")
}

// trailer verifies the last line, after n rows.
func (r *reader) trailer(n int64) error {
	var last trailer
	if apierror.Decode("the last line", r.Bytes(), &last) != nil {
		return damaged("its last line is invalid")
	}
	if last.Rows != n {
		return damaged("it has %d rows instead of %d", n, last.Rows)
	}
	if hex.EncodeToString(r.sum.Sum(nil)) != last.SHA256 {
		return damaged("its checksum is wrong")
	}
	return nil
}

// damaged returns the error of reading, or else one that says what is wrong.
func (r *reader) damaged(what string) error {
	if err := r.Err(); err != nil {
		return damaged("%w", err)
	}
	return damaged("%s", what)
}

// check refuses a row that no gate can read, or that a restore cannot write: a
// restore that fails midway leaves a store that gates refuse.
func check(p book.Piece) error {
	account, names := "", []string(nil)
	switch {
	case p.Document != nil:
		account = p.Document.ID
	case p.Count != nil:
		account, names = p.Count.Account, []string{p.Count.Endpoint, p.Count.Key}
		if p.Count.Used < 0 || p.Count.Used > maxCount {
			return fmt.Errorf("invalid count %d", p.Count.Used)
		}
	case p.Row != nil:
		account, names = p.Space.Account, []string{p.Space.Name, p.Row.Key}
	}
	if account != "" && !contract.ValidAccount(account) || account == "" && (p.Document != nil || p.Count != nil) {
		return fmt.Errorf("invalid account %.64q", account)
	}
	for _, name := range names {
		if len(name) > maxText {
			return fmt.Errorf("a name or a key of more than %d bytes", maxText)
		}
	}
	if p.Document != nil {
		_, err := book.Decode(account, p.Document.Encode())
		return err
	}
	_, err := p.Value()
	return err
}

// A Redis server counts exactly up to maxCount. No engine takes longer keys than a
// multiple of maxText.
const maxCount, maxText = 1 << 53, 1024

func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrDamaged, fmt.Errorf(format, args...))
}
