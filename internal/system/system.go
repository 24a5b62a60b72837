// Package system has what the store and the commands need of the operating
// system, where systems differ.
package system

import "errors"

// ErrLocked says that another process has locked the directory.
var ErrLocked = errors.New("directory is locked by another process")
