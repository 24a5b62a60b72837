package api

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// answer holds back what a handler writes until all of it is there. Only
// then its ETag and length are known, and whether the client has it.
type answer struct {
	http.ResponseWriter
	status int
	body   bytes.Buffer
}

// answers recycles buffers. A history of ten years takes 150 kB, and
// growing such a buffer anew for every call would cost more than the
// numbers in it.
type answers struct{ pool sync.Pool }

// largestKept bounds what an idle buffer may pin.
const largestKept = 512 << 10

func (a *answers) take(w http.ResponseWriter) *answer {
	held, ok := a.pool.Get().(*answer)
	if !ok {
		held = new(answer)
	}
	held.ResponseWriter, held.status = w, http.StatusOK
	return held
}

func (a *answers) giveBack(held *answer) {
	held.ResponseWriter = nil
	held.body.Reset()
	if held.body.Cap() <= largestKept {
		a.pool.Put(held)
	}
}

// WriteHeader keeps the status for send.
func (a *answer) WriteHeader(status int) { a.status = status }

// Write keeps the bytes for send.
func (a *answer) Write(p []byte) (int, error) { return a.body.Write(p) }

// send writes the answer that was held back. A GET that succeeded may be
// kept by its client for fresh, and is answered with 304 when the client
// has it already. Anything else is not to be kept.
func (a *answer) send(r *http.Request, fresh time.Duration) {
	w, header := a.ResponseWriter, a.Header()
	if a.status == http.StatusOK && r.Method != http.MethodPost {
		etag := digest(a.body.Bytes())
		header.Set("ETag", etag)
		header.Set("Cache-Control", "private, max-age="+strconv.FormatInt(int64(max(fresh, 0)/time.Second), 10))
		if matches(r.Header["If-None-Match"], etag) {
			header.Del("Content-Type")
			w.WriteHeader(http.StatusNotModified)
			return
		}
	} else {
		header.Set("Cache-Control", "no-store")
	}
	header.Set("Content-Length", strconv.Itoa(a.body.Len()))
	w.WriteHeader(a.status)
	if r.Method != http.MethodHead {
		// A client that has gone away is no error of ours, and there is
		// nobody left to tell.
		_, _ = w.Write(a.body.Bytes())
	}
}

// digest returns the strong entity tag of a body: 128 bits of its SHA-256.
func digest(body []byte) string {
	sum := sha256.Sum256(body)
	return `"` + base64.RawURLEncoding.EncodeToString(sum[:16]) + `"`
}

// matches reports whether If-None-Match names the tag. The comparison is
// the weak one (RFC 9110, section 13.1.2): a proxy that compressed the
// answer has put W/ before it.
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
