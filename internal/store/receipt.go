package store

import (
	"errors"
	"time"
)

// Receipt is kept in the step that counts or settles a call. So a repetition is
// found, whatever ends in between.
type Receipt struct {
	// Name is that of the call, of those of its account.
	Name string
	// Old is what is kept under the name before, nil for nothing.
	Old []byte
	// New is kept instead of it, until Expires.
	New     []byte
	Expires time.Time
}

// ErrReceipt means that something else is kept under the name of a call. It is not
// counted or settled.
var ErrReceipt = errors.New("the call has another receipt")
