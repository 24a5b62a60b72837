// Package backup is the file format of a backup: all that a store keeps,
// except paces and login attempts.
//
// A backup is gzip of JSON lines. The first line is a header with the version
// of the format and the instant of the backup. Each further line is one
// book.Piece. The last line has the number of pieces, and the SHA-256 of all
// lines before. A file without it is incomplete.
//
// A backup has the hashes of tokens, and the labels of accounts: keep it
// private.
package backup

import "time"

// version is the version of the format. A member or a kind of piece that an
// older gate would ignore needs a new version.
const version = 3

// maxLine is the maximum length of a line, in bytes. The largest account, whose
// 400 keys have all limits and addresses that a key may have, takes half of it.
const maxLine = 8 << 20

// gzipHeader is the beginning of each file. A decompressor ignores most of
// these bytes, so Open compares them.
var gzipHeader = [...]byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff}

// header is the first line.
type header struct {
	Version int       `json:"tollgate_backup"`
	At      time.Time `json:"at"`
}

// trailer is the last line.
type trailer struct {
	Rows   int64  `json:"rows"`
	SHA256 string `json:"sha256"`
}
