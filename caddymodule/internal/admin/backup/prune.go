package backup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
)

// date matches the date in the name of a file, with the time if it has one.
var date = regexp.MustCompile(`\d{4}-\d\d-\d\d[0-9TZ:-]*`)

// IsDated tells whether the name of a file has a date.
func IsDated(path string) bool { return date.MatchString(filepath.Base(path)) }

// Prune deletes backups whose names differ from that of a dated file in the
// date only, but for the newest ones. It counts and deletes only files that are
// complete, and calls skip for each other one.
func Prune(ctx context.Context, path string, keep int, skip func(error)) error {
	undated := func(name string) string { return date.ReplaceAllLiteralString(name, "/") }
	dir, name := filepath.Dir(path), undated(filepath.Base(path))
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("looking for older backups: %w", err)
	}
	var found []*File
	for _, entry := range entries {
		if undated(entry.Name()) != name {
			continue
		}
		file, err := Open(ctx, filepath.Join(dir, entry.Name()))
		switch {
		case ctx.Err() != nil:
			return errors.Join(context.Cause(ctx), err)
		case err != nil:
			skip(err)
			continue
		}
		if err := file.Close(); err != nil {
			return err
		}
		found = append(found, file)
	}
	slices.SortFunc(found, func(a, b *File) int { return b.At.Compare(a.At) })
	for _, old := range found[min(keep, len(found)):] {
		if err := os.Remove(old.file.Name()); err != nil {
			return fmt.Errorf("deleting an older backup: %w", err)
		}
	}
	return nil
}
