package ledger

// table has counters by holder (an account or a key) and endpoint. Each holder
// has a place for its first counter, and a linked list of others: most of them
// call few endpoints. Nothing moves and nothing is freed, so a counter can be
// kept by its address.
type table struct {
	first  pages[counter] // by holder
	others pages[counter] // by number, from 1
	last   uint32         // number of others
}

// counter is a holder's calls to an endpoint: 24 bytes.
type counter struct {
	used     int64
	endpoint uint32 // 1 more than its number; 0 in a place without a counter
	next     uint32 // the holder's next counter in others; 0 for none
	// place is 1 more than the counter's place in the group that is being
	// committed, and 0 if it has none. Only the leader uses it.
	place uint32
	moved bool // since the day was loaded
}

// next returns the counter behind c, nil if there is none.
func (s *table) next(c *counter) *counter {
	if c.next == 0 {
		return nil
	}
	return s.others.get(c.next)
}

// find returns a counter, nil if there is none.
func (s *table) find(holder, endpoint uint32) *counter {
	c := s.first.get(holder)
	for c != nil && c.endpoint != endpoint+1 {
		c = s.next(c)
	}
	return c
}

// counter returns a counter, a new one if there is none.
func (s *table) counter(holder, endpoint uint32) *counter {
	if c := s.find(holder, endpoint); c != nil {
		return c
	}
	c := s.first.make(holder)
	if c.endpoint != 0 {
		first := c
		s.last++
		c = s.others.make(s.last)
		c.next, first.next = first.next, s.last
	}
	c.endpoint = endpoint + 1
	return c
}

// counters calls fn with the counters of a holder.
func (s *table) counters(holder uint32, fn func(endpoint uint32, c *counter)) {
	for c := s.first.get(holder); c != nil; c = s.next(c) {
		if c.endpoint != 0 {
			fn(c.endpoint-1, c)
		}
	}
}

// each calls fn with all counters.
func (s *table) each(fn func(holder, endpoint uint32, c *counter)) {
	for holder := range uint32(len(s.first)) * pageSize {
		s.counters(holder, func(endpoint uint32, c *counter) { fn(holder, endpoint, c) })
	}
}

// pageSize is how many elements are allocated at a time: few, because an
// active holder takes memory for its whole page.
const pageSize = 16

// pages is a list that grows without moving its elements.
type pages[T any] []*[pageSize]T

// get returns an element, nil if its page was not made.
func (p pages[T]) get(i uint32) *T {
	if at := i / pageSize; at < uint32(len(p)) && p[at] != nil {
		return &p[at][i%pageSize]
	}
	return nil
}

// make returns an element that get will return.
func (p *pages[T]) make(i uint32) *T {
	at := int(i / pageSize)
	if missing := at + 1 - len(*p); missing > 0 {
		*p = append(*p, make([]*[pageSize]T, missing)...)
	}
	if (*p)[at] == nil {
		(*p)[at] = new([pageSize]T)
	}
	return &(*p)[at][i%pageSize]
}
