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

// Prune deletes the files beside a dated backup whose names differ in the date
// only, but for the newest ones. It deletes only complete backups: it skips each
// other file, with the reason.
func Prune(ctx context.Context, path string, keep int, skip func(error)) error {
	undated := func(name string) string { return date.ReplaceAllLiteralString(name, "/") }
	dir, name := filepath.Dir(path), undated(filepath.Base(path))
	entries, err := os.ReadDir(dir) // the oldest date comes first
	if err != nil {
		return fmt.Errorf("looking for older backups: %w", err)
	}
	entries = slices.DeleteFunc(entries, func(e os.DirEntry) bool { return undated(e.Name()) != name })
	for _, old := range entries[:max(0, len(entries)-keep)] {
		file, err := Open(ctx, filepath.Join(dir, old.Name()))
		switch {
		case ctx.Err() != nil:
			return errors.Join(context.Cause(ctx), err)
		case err != nil:
			skip(err)
			continue
		}
		if err := errors.Join(file.Close(), os.Remove(file.file.Name())); err != nil {
			return fmt.Errorf("deleting an older backup: %w", err)
		}
	}
	return nil
}
