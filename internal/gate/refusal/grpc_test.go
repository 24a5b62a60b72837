package refusal

import (
	"net/http"
	"testing"
	"time"
)

// TestGRPCStatus maps every status that the gate refuses with.
func TestGRPCStatus(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]int{
		400: 3, 401: 16, 403: 7, 404: 12, 405: 12, 413: 8, 415: 3, 429: 8, 502: 14, 503: 14, 504: 14, 500: 2, 418: 2,
	} {
		if got := grpcStatus(status); got != want {
			t.Errorf("%d: got %d, want %d", status, got, want)
		}
	}
}

// TestGRPCMessage encodes what a header of gRPC must not have.
func TestGRPCMessage(t *testing.T) {
	t.Parallel()
	for message, want := range map[string]string{
		"Plain text, 5 calls.": "Plain text, 5 calls.",
		"100%":                 "100%25",
		"a\r\nb":               "a%0D%0Ab",
		"Zürich~":              "Z%C3%BCrich~",
	} {
		if got := grpcMessage(message); got != want {
			t.Errorf("%q: got %q, want %q", message, got, want)
		}
	}
}

// TestIsGRPC leaves gRPC-Web alone, whose clients read the status of HTTP.
func TestIsGRPC(t *testing.T) {
	t.Parallel()
	for media, want := range map[string]bool{
		"application/grpc": true, "application/grpc+proto": true, "Application/GRPC; charset=utf-8": true,
		"application/grpc-web": false, "application/grpc-web+proto": false, "application/grpc-web-text": false,
		"application/grpcx": false, "application/json": false, "": false, "application/grp": false,
	} {
		if got := isGRPC(http.Header{"Content-Type": {media}}); got != want {
			t.Errorf("%q: got %v, want %v", media, got, want)
		}
	}
	if isGRPC(http.Header{}) {
		t.Error("a request without Content-Type is taken for gRPC")
	}
}

// TestWaitInWords: minutes are rounded up, so that a client that waits that long
// is admitted. A day can begin later than at midnight.
func TestWaitInWords(t *testing.T) {
	t.Parallel()
	for seconds, want := range map[int]string{
		1: "in 1 second", 90: "in 90 seconds", 91: "in 2 minutes", 241: "in 5 minutes", 5400: "in 90 minutes",
		5460: "in about 2 hours", 86400: "in about 24 hours", 11 * 86400: "in about 11 days",
	} {
		if got := inWords(int64(seconds)); got != want {
			t.Errorf("%d: got %q, want %q", seconds, got, want)
		}
	}
	cairo, err := time.LoadLocation("Africa/Cairo")
	if err != nil {
		t.Fatal(err)
	}
	for at, want := range map[string]string{"2127-04-25T01:00:00": "at 01:00 (Africa/Cairo)", "2127-04-26T00:00:00": "at midnight (Africa/Cairo)"} {
		if end, err := time.ParseInLocation("2006-01-02T15:04:05", at, cairo); err != nil || clock(end) != want {
			t.Errorf("%s: got %q, %v, want %q", at, clock(end), err, want)
		}
	}
}
