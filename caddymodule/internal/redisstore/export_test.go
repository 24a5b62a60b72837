package redisstore

// SetMaxQueued sets how many events wait at most, and returns how many did.
func (s *Store) SetMaxQueued(most int) (was int) {
	was, s.maxQueued = s.maxQueued, most
	return was
}
