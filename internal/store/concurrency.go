package store

import "context"

// Concurrency knows which calls of an account run: each is in one or several
// lists, of an endpoint or All. It forgets the calls of a process that ends. It is
// safe for concurrent use.
type Concurrency interface {
	// Enter adds a call to lists, if each has fewer calls than its most. Otherwise
	// it adds it to none. running has the calls of each list, with this one if it
	// is added. leave removes the call. It is nil if the call is not added. Call
	// it once. It can wait for a server, but not for long.
	//
	// An error is an ErrUnavailable: the call is in no list, or soon will not be.
	Enter(ctx context.Context, account string, lists []string, most []int64) (running []int64, leave func(), err error)

	// Running returns the calls of each list.
	Running(ctx context.Context, account string, lists []string) (running []int64, err error)
}
