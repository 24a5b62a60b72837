package terminal

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// TestNewFile: a file has its name only when it is complete. A file that is
// there, or a write that fails, leaves everything as it was.
func TestNewFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "new")
	errWrite := errors.New("no space")
	for _, c := range []struct {
		name, text string
		fails      error
		want       error
	}{
		{"a write that fails", "part", errWrite, errWrite},
		{"a new file", "whole", nil, nil},
		{"a file that exists", "other", nil, fs.ErrExist},
	} {
		err := NewFile(path, func(draft *os.File) error {
			_, err := draft.WriteString(c.text)
			if _, early := os.Lstat(path); !errors.Is(early, fs.ErrNotExist) {
				t.Errorf("%s: has its name before its end", c.name)
			}
			return errors.Join(err, c.fails)
		})
		if !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, err, c.want)
		}
		got, err := os.ReadFile(path)
		if want := map[bool]string{false: "whole"}[c.fails != nil]; string(got) != want {
			t.Errorf("%s: the file has %q, %v, want %q", c.name, got, err, want)
		}
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 1 {
		t.Errorf("the directory has %v, %v, want one file", files, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
		t.Errorf("got %v, %v, want mode 0600", info, err)
	}
}

// TestReplaceFile: a write that fails leaves the older file.
func TestReplaceFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "file")
	errWrite := errors.New("no space")
	for i, want := range []error{nil, errWrite, nil} {
		text := []string{"first", "part", "second"}[i]
		err := ReplaceFile(path, func(draft *os.File) error {
			_, err := draft.WriteString(text)
			return errors.Join(err, want)
		})
		got, readErr := os.ReadFile(path)
		if content := []string{"first", "first", "second"}[i]; !errors.Is(err, want) || string(got) != content {
			t.Errorf("%s: got %v, %q (%v), want %q", text, err, got, readErr, content)
		}
	}
}

// TestPublish: a draft gets a name that no file has, with hard links and
// without.
func TestPublish(t *testing.T) {
	t.Parallel()
	for name, publish := range map[string]func(draft, path string) error{"hard links": publish, "no hard links": renameToNew} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			draft, path := filepath.Join(dir, "draft"), filepath.Join(dir, "backup")
			for round, want := range []error{nil, fs.ErrExist} {
				text := []string{"first", "second"}[round]
				if err := os.WriteFile(draft, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
				if err := publish(draft, path); !errors.Is(err, want) {
					t.Errorf("publishing the %s draft: got %v, want %v", text, err, want)
				}
				if got, err := os.ReadFile(path); err != nil || string(got) != "first" {
					t.Errorf("after the %s draft the file has %q (%v), want the first one", text, got, err)
				}
				if err := os.Remove(draft); err != nil && !errors.Is(err, fs.ErrNotExist) {
					t.Fatal(err)
				}
			}
		})
	}
}

// TestPublishFails: a rename that fails leaves no file with the name.
func TestPublishFails(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "backup")
	if err := publish(path+".missing", path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want %v", err, fs.ErrNotExist)
	}
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the file: %v, want none", err)
	}
}
