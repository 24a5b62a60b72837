package api

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"hash"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// longestKept is the size of an answer up to which it is kept in memory while
// it is sent. A history of one currency has at most 220 kB.
const longestKept = 256 << 10

// kept is an answer, as far as it is kept, with its digest and length.
type kept struct {
	text   bytes.Buffer
	digest hash.Hash
	length int
}

// Write adds to the answer. It never fails.
func (k *kept) Write(part []byte) (int, error) {
	k.digest.Write(part)
	if k.length += len(part); k.length <= longestKept {
		k.text.Write(part)
	}
	return len(part), nil
}

func newKept() any { return &kept{digest: sha256.New()} }

func (k *kept) reset() {
	k.text.Reset()
	k.digest.Reset()
	k.length = 0
}

// shortBody is a length in bytes up to which net/http sets Content-Length
// itself. In one process with the gate, the field would be the ninth of the
// header. A Go map of nine entries takes twice the memory of one of eight.
const shortBody = 1 << 10

// send writes an answer. A client may cache a successful GET until newer
// rates are expected, and gets 304 if its cached answer is current. Nothing
// else may be cached. The answer is written once for its digest, and if it is
// too long to be kept, once more to the client.
func (s *service) send(w http.ResponseWriter, r *http.Request, status int, f format, answer any) {
	k := s.answers.Get().(*kept)
	defer s.answers.Put(k)
	k.reset()
	if err := f.write(k, answer); err != nil {
		panic(fmt.Errorf("writing an answer: %w", err)) // only a defect can cause it
	}
	// The keys are in canonical form; Header.Set would check that.
	header := w.Header()
	if status == http.StatusOK && r.Method != http.MethodPost {
		etag := entityTag(k.digest.Sum(nil))
		header["Etag"] = []string{etag}
		header["Cache-Control"] = []string{"private, max-age=" + strconv.Itoa(s.maxAge())}
		if matches(r.Header["If-None-Match"], etag) {
			w.WriteHeader(http.StatusNotModified)
			return
		}
	} else {
		header["Cache-Control"] = []string{"no-store"}
	}
	header["Content-Type"] = []string{f.contentType}
	whole := k.length <= longestKept
	if whole && (k.length > shortBody || r.Method == http.MethodHead) {
		header["Content-Length"] = []string{strconv.Itoa(k.length)}
	}
	w.WriteHeader(status)
	switch {
	case r.Method == http.MethodHead:
	// If a write fails, the client is gone; ignore the error.
	case whole:
		_, _ = w.Write(k.text.Bytes())
	default:
		_ = f.write(w, answer)
	}
}

// maxAge returns how many seconds an answer is fresh.
func (s *service) maxAge() int {
	now := s.now()
	return int(max(s.source.NextExpected(now).Sub(now), 0) / time.Second)
}

// entityTag returns the strong entity tag of a body: 128 bits of its SHA-256.
func entityTag(sum []byte) string {
	tag := append(make([]byte, 0, 24), '"')
	tag = base64.RawURLEncoding.AppendEncode(tag, sum[:16])
	return string(append(tag, '"'))
}

// matches reports whether If-None-Match has the tag. It uses the weak
// comparison (RFC 9110, section 13.1.2): a proxy that compresses an answer
// adds W/ to the tag.
func matches(fields []string, etag string) bool {
	for _, field := range fields {
		for candidate := range strings.SplitSeq(field, ",") {
			candidate = strings.TrimSpace(candidate)
			if candidate == "*" || strings.TrimPrefix(candidate, "W/") == etag {
				return true
			}
		}
	}
	return false
}
