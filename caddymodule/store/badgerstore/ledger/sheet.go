package ledger

// sheet holds counters by account and endpoint. An account's counters are a
// linked list, because an account calls few endpoints. Nothing moves and
// nothing is freed, so a counter can be kept by its address.
type sheet struct {
	heads    pages[uint32]  // by account: the number of its first counter
	counters pages[counter] // by number; those of 0 and empty are not used
	used     uint32         // highest number of a counter
}

// empty is the head of an account that was asked for and has no counter.
// The head of other accounts without a counter is 0.
const empty = 1

// counter is an account's calls to an endpoint: 24 bytes.
type counter struct {
	used     int64
	endpoint uint32
	next     uint32 // of the account; 0 or empty for none
	// place is 1 more than the counter's place in the group that is being
	// committed, and 0 if it has none. Only the leader uses it.
	place uint32
	moved bool // since the day was loaded
}

// has tells whether an account was opened.
func (s *sheet) has(account uint32) bool {
	head := s.heads.get(account)
	return head != nil && *head != 0
}

// open makes has return true for an account.
func (s *sheet) open(account uint32) {
	if head := s.heads.make(account); *head == 0 {
		*head = empty
	}
}

// first returns the first counter of an account, nil if it has none.
func (s *sheet) first(account uint32) *counter {
	head := s.heads.get(account)
	if head == nil || *head <= empty {
		return nil
	}
	return s.counters.get(*head)
}

// next returns the counter behind c, nil if c is the last one.
func (s *sheet) next(c *counter) *counter {
	if c.next <= empty {
		return nil
	}
	return s.counters.get(c.next)
}

// find returns a counter, nil if there is none.
func (s *sheet) find(account, endpoint uint32) *counter {
	c := s.first(account)
	for c != nil && c.endpoint != endpoint {
		c = s.next(c)
	}
	return c
}

// counter returns a counter, a new one if there is none.
func (s *sheet) counter(account, endpoint uint32) *counter {
	if c := s.find(account, endpoint); c != nil {
		return c
	}
	head := s.heads.make(account)
	s.used = max(s.used, empty) + 1
	c := s.counters.make(s.used)
	c.endpoint, c.next = endpoint, *head
	*head = s.used
	return c
}

// each calls fn with all counters.
func (s *sheet) each(fn func(account uint32, c *counter)) {
	for account := range s.heads.length() {
		for c := s.first(account); c != nil; c = s.next(c) {
			fn(account, c)
		}
	}
}

// pageSize is how many elements are allocated at a time.
const pageSize = 256

// pages is a list that grows without moving its elements.
type pages[T any] []*[pageSize]T

// length returns a number that all elements in use are below.
func (p pages[T]) length() uint32 { return uint32(len(p)) * pageSize }

// get returns an element, nil if it was not made.
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
