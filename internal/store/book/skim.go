package book

import (
	"fmt"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/token"
)

// An engine that reads all documents when it opens skims them, which is faster
// than Decode. What has another member than most, such as overrides or limits, is
// decoded as a whole.

// SkimAccount is Decode for an Account part, without Label and CreatedAt.
func SkimAccount(id string, part []byte) (store.Account, error) {
	a, s := store.Account{ID: id}, newSkimmer(part)
	for n := s.count(cborMap); n > 0; n-- {
		switch _, field := s.head(); field {
		case 1:
			a.Plan = string(s.bytes())
		case 2, 4:
			s.skip()
		case 3:
			a.Disabled = s.bool()
		default:
			full, err := Decode(id, Parts{Account: part})
			if err != nil {
				return a, err
			}
			return full.Account, nil
		}
	}
	return a, s.err(id)
}

// SkimKeys calls fn with each key of a part, without Hint and CreatedAt. fn must
// not keep the key.
func SkimKeys(id string, kind token.Kind, part []byte, fn func(*Key) error) error {
	s, k := newSkimmer(part), new(Key)
	for i := range s.count(cborArray) {
		*k = Key{Key: store.Key{Account: id, Kind: kind, Abilities: k.Abilities[:0]}}
		for n := s.count(cborMap); n > 0; n-- {
			switch _, field := s.head(); field {
			case 1:
				k.ID = string(s.bytes())
			case 2:
				k.Name = string(s.bytes())
			case 3:
				for n := s.count(cborArray); n > 0; n-- {
					k.Abilities = append(k.Abilities, string(s.bytes()))
				}
			case 4, 5:
				s.skip()
			case 6:
				k.ExpiresAt = s.time()
			case 7:
				k.RevokedAt = s.time()
			case 10:
				k.Root = string(s.bytes())
			case 11:
				s.failed = copy(k.Hash[:], s.bytes()) != len(k.Hash) || s.failed
			default:
				return decodeKeysFrom(i, id, kind, part, fn)
			}
		}
		err := s.err(id)
		if err == nil {
			err = fn(k)
		}
		if err != nil {
			return err
		}
	}
	return s.err(id)
}

// decodeKeysFrom is SkimKeys for the keys from one on.
func decodeKeysFrom(first uint64, id string, kind token.Kind, part []byte, fn func(*Key) error) error {
	a := Account{Account: store.Account{ID: id}}
	if err := a.decodeKeys(kind, part); err != nil {
		return err
	}
	for _, k := range a.Keys[first:] {
		if err := fn(k); err != nil {
			return err
		}
	}
	return nil
}

// The major types of CBOR.
const (
	cborBytes = 2
	cborText  = 3
	cborArray = 4
	cborMap   = 5
	cborTag   = 6
)

// skimmer reads CBOR that encode has written. It returns zeros once it has
// failed.
type skimmer struct {
	data   []byte
	failed bool
}

func newSkimmer(value []byte) *skimmer {
	plain, err := unpack(value)
	return &skimmer{plain, err != nil}
}

func (s *skimmer) err(account string) error {
	if s.failed {
		return fmt.Errorf("account %.40s: %w", account, ErrDamaged)
	}
	return nil
}

// take reads so many bytes.
func (s *skimmer) take(n uint64) []byte {
	if s.failed = s.failed || n > uint64(len(s.data)); s.failed {
		return nil
	}
	taken := s.data[:n]
	s.data = s.data[n:]
	return taken
}

// head reads the major type of an item and its argument.
func (s *skimmer) head() (major byte, argument uint64) {
	first := s.take(1)
	if first == nil {
		return 0, 0
	}
	major, argument = first[0]>>5, uint64(first[0]&31)
	if argument < 24 {
		return major, argument
	}
	size := uint64(1) << (argument - 24)
	argument = 0
	for _, b := range s.take(size) {
		argument = argument<<8 | uint64(b)
	}
	return major, argument
}

// count reads the head of an array or a map, and returns how many items it has.
func (s *skimmer) count(want byte) uint64 {
	major, n := s.head()
	if s.failed = s.failed || major != want || n > uint64(len(s.data)); s.failed {
		return 0
	}
	return n
}

// bytes reads a text or bytes.
func (s *skimmer) bytes() []byte {
	major, n := s.head()
	if s.failed = s.failed || major != cborBytes && major != cborText; s.failed {
		return nil
	}
	return s.take(n)
}

func (s *skimmer) bool() bool {
	const isTrue = 21
	_, value := s.head()
	return value == isTrue
}

func (s *skimmer) time() time.Time {
	t, err := time.Parse(time.RFC3339Nano, string(s.bytes()))
	s.failed = s.failed || err != nil
	return t
}

// skip reads an item with all that is in it.
func (s *skimmer) skip() {
	switch major, n := s.head(); major {
	case cborBytes, cborText:
		s.take(n)
	case cborTag:
		s.skip()
	case cborArray, cborMap:
		if major == cborMap {
			n *= 2
		}
		for ; n > 0 && !s.failed; n-- {
			s.skip()
		}
	}
}
