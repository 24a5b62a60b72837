package tell

import (
	"bytes"
	"encoding/binary"
	"math/bits"
)

const (
	maxLevels = 8  // names in a member
	maxName   = 64 // bytes
	maxNumber = 40 // bytes
)

// document is the state of JSON that is read piece by piece. Only objects on the
// way to a member are tracked: of all other values, it counts the open brackets.
// It does not check the JSON.
type document struct {
	level   int                  // tracked objects that are open
	matched [maxLevels + 1]uint8 // by level: the members that can be in the object
	pending uint8                // those that the last name matches
	list    bool                 // the document is a list of objects
	skipped int                  // brackets that are open and not tracked

	quoted, escaped bool
	name            []byte // the last string as it is written, and not all of a long one
	number          []byte // as name
}

// between tells whether no document has begun that has not ended.
func (d *document) between() bool { return d.level == 0 && d.skipped == 0 && !d.quoted && !d.list }

// read reads a piece of JSON.
func (s *Scanner) read(p []byte) {
	for len(p) > 0 {
		switch {
		case s.skipped > 0 && !s.escaped:
			p = s.skip(p)
		case s.quoted:
			p = s.readString(p)
		default:
			s.readByte(p[0])
			p = p[1:]
		}
	}
}

// readString reads to the end of a string, and returns the rest.
func (s *Scanner) readString(p []byte) []byte {
	for len(p) > 0 {
		from := 0
		if s.escaped {
			from = 1
		}
		text := p
		end := bytes.IndexByte(p[from:], '"')
		if end >= 0 {
			text = p[:from+end]
		}
		if s.skipped == 0 {
			s.name = appendUpTo(maxName+1, s.name, text)
		}
		escapes := 0
		for at := len(text) - 1; at >= from && text[at] == '\\'; at-- {
			escapes++
		}
		s.escaped = escapes%2 == 1
		p = p[len(text):]
		if end >= 0 && !s.escaped {
			s.quoted = false
			return p[1:]
		}
	}
	return nil
}

// skip reads a part of a value that is not tracked, and returns the rest. It reads
// eight bytes at once where they are ASCII without escapes and do not end the value.
func (s *Scanner) skip(p []byte) []byte {
	var inside uint64 // all bits in a string
	if s.quoted {
		inside = ^inside
	}
	plain := false
	for len(p) >= 8 {
		w := binary.LittleEndian.Uint64(p)
		quotes, opened, closed := equal(w, '"'), equal(w|0x20*each, '{'), equal(w|0x20*each, '}')
		if plain = quotes|opened|closed == 0; plain || w&highest|equal(w, '\\') != 0 {
			break
		}
		quoted := quotes>>7*each ^ inside // in the lowest bit of each byte
		n := bits.OnesCount64(closed &^ (quoted << 7))
		if n >= s.skipped {
			break
		}
		s.skipped += bits.OnesCount64(opened&^(quoted<<7)) - n
		inside = -(quoted >> 56 & 1)
		p = p[8:]
	}
	s.quoted = inside != 0
	if len(p) == 0 {
		return nil
	}
	if s.quoted {
		return s.readString(p)
	}
	if plain { // faster for long lists of numbers
		text, _, _ := bytes.Cut(p, []byte(`"`))
		if closed := count(text, "]", "}"); closed < s.skipped {
			s.skipped += count(text, "[", "{") - closed
			return p[len(text):]
		}
	}
	for i, b := range p {
		switch b {
		case '"':
			s.quoted = true
			return p[i+1:]
		case '[', '{':
			s.skipped++
		case ']', '}':
			if s.skipped--; s.skipped == 0 {
				return p[i+1:]
			}
		}
	}
	return nil
}

// each has a one in each byte, and highest has the highest bit of each.
const (
	each    = 0x0101010101010101
	highest = 0x80 * each
)

// equal sets the highest bit of each byte that equals b, of eight bytes of ASCII.
func equal(word uint64, b byte) uint64 {
	return ^((word ^ uint64(b)*each) + 0x7f*each) & highest
}

// readByte reads a byte of a tracked object, or between documents.
func (s *Scanner) readByte(b byte) {
	switch b {
	case '"':
		s.quoted, s.name = true, s.name[:0]
	case ':':
		s.pending = s.matching()
	case '{':
		inside := s.inside()
		if s.pending = 0; inside == 0 {
			s.skipped = 1
			return
		}
		s.level++
		s.matched[s.level] = inside
	case '[':
		if s.pending = 0; s.level > 0 || s.list {
			s.skipped = 1
			return
		}
		s.list = true
	case '}':
		s.endNumber()
		if s.level == 1 && !s.events {
			s.documents++
		}
		s.level, s.pending = max(0, s.level-1), 0
	case ']':
		s.list = false
	case ',', ' ', '\t', '\r', '\n':
		s.endNumber()
		if b == ',' {
			s.pending = 0
		}
	default:
		if s.pending != 0 {
			s.number = appendUpTo(maxNumber+1, s.number, []byte{b})
		}
	}
}

// matching returns the members that the last name can be of.
func (s *Scanner) matching() (found uint8) {
	if s.level == 0 {
		return 0
	}
	for i := range s.members {
		if m := &s.members[i]; s.matched[s.level]&(1<<i) != 0 && m.names[s.level-1] == string(s.name) {
			found |= 1 << i
		}
	}
	return found
}

// inside returns the members that can be in an object that begins.
func (s *Scanner) inside() (found uint8) {
	for i := range s.members {
		if bit := uint8(1) << i; s.level == 0 || s.pending&bit != 0 && len(s.members[i].names) > s.level {
			found |= bit
		}
	}
	return found
}

// endNumber ends the number of the members that end here.
func (s *Scanner) endNumber() {
	if len(s.number) == 0 {
		return
	}
	n, err := decimal(string(s.number))
	s.number = s.number[:0]
	for i := range s.members {
		if m := &s.members[i]; err == nil && s.pending&(1<<i) != 0 && len(m.names) == s.level {
			p := &s.parts[m.part]
			if p.told == 0 || p.by != s.documents {
				p.told++
			}
			p.number, p.by = n, s.documents
		}
	}
}

func appendUpTo(most int, to, text []byte) []byte {
	return append(to, text[:min(len(text), most-len(to))]...)
}

func count(text []byte, either, or string) int {
	return bytes.Count(text, []byte(either)) + bytes.Count(text, []byte(or))
}
