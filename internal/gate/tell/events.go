package tell

import (
	"bytes"
	"strings"
)

// stream is the state of a text/event-stream, in which the data of each event is a
// document, or of JSON lines.
type stream struct {
	events bool
	lines  bool
	at     int  // how much of the line is field, or inData or inOther
	cr     bool // the last line ended with a carriage return
	open   bool // the event has data

	documents int // how many have ended, and 1 for those that were skipped together
}

const (
	field   = "data:"
	inData  = len(field)
	inOther = inData + 1
)

// readStream reads a piece of a stream. It skips events and lines that cannot have a
// member: most have none.
func (s *Scanner) readStream(p []byte) {
	left := len(p) + 1 // bytes from the next member to the end
	for len(p) > 0 {
		if left > len(p) && s.at == 0 && !s.open && s.between() {
			left = len(p) - s.find(p)
			end := s.lastEnd(p[:len(p)-left])
			if s.lines && end > 0 || bytes.HasPrefix(p[:end], []byte(field)) || bytes.Contains(p[:end], []byte("\n"+field)) {
				s.documents++
			}
			s.cr = s.cr && end == 0
			p = p[end:]
		} else {
			p = s.readLine(p)
		}
	}
}

// find returns where the next member can be in a piece, or the length of the piece.
func (s *Scanner) find(p []byte) int {
	for i := range s.members {
		if at := bytes.Index(p, s.members[i].needle); at >= 0 {
			p = p[:at]
		}
	}
	return len(p)
}

// lastEnd returns the end of the last event or line that ends in a piece.
func (s *Scanner) lastEnd(p []byte) int {
	for at := bytes.LastIndexByte(p, '\n'); at > 0; at = bytes.LastIndexByte(p[:at], '\n') {
		if s.lines || p[at-1] == '\n' || at > 1 && p[at-1] == '\r' && p[at-2] == '\n' {
			return at + 1
		}
	}
	return 0
}

// readLine reads to the end of a line, and returns the rest.
func (s *Scanner) readLine(p []byte) []byte {
	if s.cr = s.cr && p[0] == '\n'; s.cr {
		s.cr = false
		return p[1:]
	}
	text := p
	for _, end := range []byte("\n\r") {
		if at := bytes.IndexByte(text, end); at >= 0 {
			text = text[:at]
		}
	}
	rest := p[len(text):]
	if s.lines {
		s.at = inData
	}
	for len(text) > 0 && s.at < inData {
		if text[0] != field[s.at] {
			s.at = inOther
			break
		}
		s.at++
		text = text[1:]
	}
	if s.at == inData {
		s.open = s.events
		s.read(text)
	}
	if len(rest) == 0 {
		return nil
	}
	switch s.at {
	case inData:
		s.read(rest[:1]) // ends a number
	case 0: // an empty line ends the event
		s.document = document{name: s.name[:0], number: s.number[:0]}
		if s.open {
			s.documents++
		}
		s.open = false
	}
	s.at, s.cr = 0, rest[0] == '\r'
	return rest[1:]
}

// needle returns the end of a name with the quote behind it. It begins with the
// byte of the name that is the rarest in JSON and in prose, so that bytes.Index
// rarely stops.
func needle(name string) []byte {
	name += `"`
	at := -1
	for _, rare := range "ZQXJKVWYUGHBFMPqzjxvkw_" {
		if at = strings.IndexRune(name, rare); at >= 0 {
			break
		}
	}
	return []byte(name[max(0, at):])
}
