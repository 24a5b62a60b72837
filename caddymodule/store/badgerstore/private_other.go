//go:build !linux

package badgerstore

import "errors"

// restrictNewFiles is not possible.
func restrictNewFiles(string) error { return errors.ErrUnsupported }
