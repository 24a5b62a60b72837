package system

import (
	"errors"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/windows"
)

// NotKept are the promises of the store that this system cannot keep. Badger
// does not sync mapped files on Windows, and directories cannot be synced.
var NotKept = []string{
	"counts and changes survive a loss of power",
	"other users cannot read the directory: it has the permissions of the one above it",
}

// LockDir takes the lock that Badger takes for a directory: a file that nobody
// else can open. If another process has it, the error is ErrLocked.
func LockDir(dir string) (release func() error, err error) {
	name, err := windows.UTF16PtrFromString(filepath.Join(dir, "LOCK"))
	if err != nil {
		return nil, err
	}
	handle, err := windows.CreateFile(name, 0, 0, nil, windows.OPEN_ALWAYS, windows.FILE_ATTRIBUTE_TEMPORARY|windows.FILE_FLAG_DELETE_ON_CLOSE, 0)
	if errors.Is(err, windows.ERROR_SHARING_VIOLATION) {
		err = ErrLocked
	}
	return func() error { return windows.CloseHandle(handle) }, err
}

// SyncDir does nothing: Windows cannot sync a directory.
func SyncDir(string) error { return nil }

// Touch sets the times of a directory to now. It fails if the file system is
// read-only.
func Touch(dir string) error {
	now := time.Now()
	return os.Chtimes(dir, now, now)
}

// FreeSpace returns the bytes that this user can still write.
func FreeSpace(dir string) (free uint64, err error) {
	name, err := windows.UTF16PtrFromString(dir)
	if err != nil {
		return 0, err
	}
	err = windows.GetDiskFreeSpaceEx(name, &free, nil, nil)
	return free, err
}
