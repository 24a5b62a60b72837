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

// Prune keeps a dated backup, and the newest of the files beside it whose names
// differ in the date only, keep in all. It deletes the others if they are
// complete backups, and skips each other file, with the reason. An empty file is
// no backup and is not counted.
func Prune(ctx context.Context, path string, keep int, skip func(error)) error {
	undated := func(name string) string { return date.ReplaceAllLiteralString(name, "/") }
	dir, name := filepath.Dir(path), undated(filepath.Base(path))
	entries, err := os.ReadDir(dir) // the oldest date comes first
	if err != nil {
		return fmt.Errorf("looking for older backups: %w", err)
	}
	entries = slices.DeleteFunc(entries, func(e os.DirEntry) bool {
		info, err := e.Info()
		return err != nil || info.Size() == 0 || e.Name() == filepath.Base(path) || undated(e.Name()) != name
	})
	for _, old := range entries[:max(0, len(entries)-(keep-1))] {
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
