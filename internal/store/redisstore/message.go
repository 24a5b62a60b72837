package redisstore

import (
	"encoding/binary"
	"errors"
	"strconv"

	"github.com/redis/rueidis"
)

// number returns a handle or a version as text, empty for 0: there is none.
func number(n uint64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatUint(n, 10)
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }

// numbers are an array of MessagePack. A script parses it faster than text.
type numbers struct {
	bytes []byte
	count uint16
}

func newNumbers() *numbers {
	const arrayHead, usual = 3, 9 * 32
	return &numbers{bytes: make([]byte, arrayHead, arrayHead+usual)}
}

func (n *numbers) add(values ...int64) {
	const int64Format = 0xd3
	for _, v := range values {
		n.bytes = binary.BigEndian.AppendUint64(append(n.bytes, int64Format), uint64(v))
		n.count++
	}
}

func (n *numbers) text() string {
	const array16Format = 0xdc
	n.bytes[0] = array16Format
	binary.BigEndian.PutUint16(n.bytes[1:], n.count)
	return string(n.bytes)
}

// reader reads the elements of a reply. After an error, all are zero.
type reader struct {
	reply []rueidis.RedisMessage
	err   error
}

var errShort = errors.New("too short")

func (r *reader) next() (m rueidis.RedisMessage) {
	if r.err == nil && len(r.reply) == 0 {
		r.err = errShort
	}
	if r.err != nil {
		return m
	}
	m, r.reply = r.reply[0], r.reply[1:]
	return m
}

func (r *reader) int() (n int64) {
	if m := r.next(); r.err == nil {
		n, r.err = m.AsInt64()
	}
	return n
}

func (r *reader) text() (text string) {
	if m := r.next(); r.err == nil {
		text, r.err = m.ToString()
	}
	return text
}
