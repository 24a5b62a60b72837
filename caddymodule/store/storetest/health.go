package storetest

import "github.com/caddy-tollgate/tollgate/caddymodule/store"

// check: Check of a working store returns no error and changes no count.
func (s *suite) check() {
	s.account("acc_1")
	call := s.call("acc_1", "convert")
	for i := range int64(3) {
		s.must(s.store.Check(s.Context()))
		s.take(call, store.Unlimited, i+1, true)
	}
	s.wantUsed(call, 3)
}
