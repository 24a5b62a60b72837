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

// answer buffers what a handler writes: the ETag and the length are known
// only at the end.
type answer struct {
	http.ResponseWriter
	status int
	body   bytes.Buffer
}

// answers is a pool of buffers. A history of ten years takes 150 kB; growing
// a new buffer for each call would cost more than the numbers in it.
type answers struct{ pool sync.Pool }

// largestKept is the size of the largest buffer in the pool.
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

// WriteHeader stores the status for send.
func (a *answer) WriteHeader(status int) { a.status = status }

// Write stores the bytes for send.
func (a *answer) Write(p []byte) (int, error) { return a.body.Write(p) }

// send writes the buffered answer. A client may cache a successful GET for
// fresh, and gets 304 if its cached answer is current. Nothing else may be
// cached.
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
		// If this fails, the client is gone; ignore the error.
		_, _ = w.Write(a.body.Bytes())
	}
}

// digest returns the strong entity tag of a body: 128 bits of its SHA-256.
func digest(body []byte) string {
	sum := sha256.Sum256(body)
	return `"` + base64.RawURLEncoding.EncodeToString(sum[:16]) + `"`
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
