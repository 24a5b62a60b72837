package store

import "context"

// Concurrency knows which calls of an account run: each is in one or several
// lists, of an endpoint or All. It forgets the calls of a process that ends. It is
// safe for concurrent use.
type Concurrency interface {
	// Enter adds n calls to lists, if each list has then at most its most. Otherwise
	// it adds them to none. running has the calls of each list, with these if they
	// are added. leave removes them. It is nil if they are not added. Call it once.
	// It can wait for a server, but not for long.
	//
	// An error is an ErrUnavailable: the calls are in no list, or soon will not be.
	Enter(ctx context.Context, account string, lists []string, most []int64, n int64) (running []int64, leave func(), err error)

	// Running returns the calls of each list.
	Running(ctx context.Context, account string, lists []string) (running []int64, err error)
}
