package api

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// bodies is a pool of buffers. A history of ten years takes 150 kB; growing
// a new buffer for each call would cost more than the numbers in it.
type bodies struct{ pool sync.Pool }

// largestKept is the size of the largest buffer in the pool.
const largestKept = 512 << 10

func (b *bodies) take() *bytes.Buffer {
	body, ok := b.pool.Get().(*bytes.Buffer)
	if !ok {
		body = new(bytes.Buffer)
	}
	return body
}

func (b *bodies) giveBack(body *bytes.Buffer) {
	body.Reset()
	if body.Cap() <= largestKept {
		b.pool.Put(body)
	}
}

// shortBody is a length in bytes up to which net/http sets Content-Length
// itself. In one process with the gate, the field would be the ninth of the
// header. A Go map of nine entries takes twice the memory of one of eight.
const shortBody = 1 << 10

// send writes an answer. A client may cache a successful GET until newer
// rates are expected, and gets 304 if its cached answer is current. Nothing
// else may be cached.
func (s *service) send(w http.ResponseWriter, r *http.Request, status int, contentType string, answer any) {
	body := s.bodies.take()
	defer s.bodies.giveBack(body)
	marshal(body, answer)
	// The keys are in canonical form; Header.Set would check that.
	header := w.Header()
	if status == http.StatusOK && r.Method != http.MethodPost {
		etag := digest(body.Bytes())
		header["Etag"] = []string{etag}
		header["Cache-Control"] = []string{"private, max-age=" + strconv.Itoa(s.maxAge())}
		if matches(r.Header["If-None-Match"], etag) {
			w.WriteHeader(http.StatusNotModified)
			return
		}
	} else {
		header["Cache-Control"] = []string{"no-store"}
	}
	header["Content-Type"] = []string{contentType}
	if body.Len() > shortBody || r.Method == http.MethodHead {
		header["Content-Length"] = []string{strconv.Itoa(body.Len())}
	}
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		// If this fails, the client is gone; ignore the error.
		_, _ = w.Write(body.Bytes())
	}
}

// marshal writes the JSON of an answer. Only a defect can make it panic.
func marshal(body *bytes.Buffer, answer any) {
	// The names are struct fields, or sorted codes without duplicates: the
	// check for duplicates takes a quarter of the time of a table.
	if err := json.MarshalWrite(body, answer, jsontext.AllowDuplicateNames(true)); err != nil {
		panic(fmt.Errorf("writing an answer: %w", err))
	}
}

// maxAge returns how many seconds an answer is fresh.
func (s *service) maxAge() int {
	now := s.now()
	return int(max(s.source.NextExpected(now).Sub(now), 0) / time.Second)
}

// digest returns the strong entity tag of a body: 128 bits of its SHA-256.
func digest(body []byte) string {
	sum := sha256.Sum256(body)
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
