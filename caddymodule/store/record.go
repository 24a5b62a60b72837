package store

import (
	"net/netip"
	"slices"
	"strings"
	"time"
)

// Record describes a finished call of a known account: an admitted or a refused
// one.
type Record struct {
	Account  string
	Key      string // the key's id
	KeyName  string
	At       time.Time
	Endpoint string
	Method   string
	// Path is what CutPath leaves of it once the store has it.
	Path   string
	Status int
	// Code is why the gate refused the call. It is empty for an admitted call.
	Code     string
	Duration time.Duration
	// From is the client's address, if it is known. The store keeps it as
	// the LastUsedFrom of the key only.
	From netip.Addr
	// Handle is the Handle of the grant, or zero. With it, the record is
	// dropped if the account was deleted after the grant, also if there is
	// a new account with that id. The store does not keep it.
	Handle Handle
}

// CutPath returns the part of a path that is kept. It can be a part of the
// same memory.
func CutPath(path string) string {
	if len(path) <= MaxPath {
		return path
	}
	return strings.ToValidUTF8(path[:MaxPath], "")
}

// LastCalls sorts the calls of one account, newest first, and returns those
// that a store keeps: the last MaxRecentRefused of the refused calls, and of
// all these the last MaxRecent. It reuses the memory of calls.
func LastCalls(calls []Record) []Record {
	slices.SortStableFunc(calls, func(a, b Record) int { return b.At.Compare(a.At) })
	refused := 0
	calls = slices.DeleteFunc(calls, func(r Record) bool {
		if r.Code != "" {
			refused++
		}
		return r.Code != "" && refused > MaxRecentRefused
	})
	return slices.Delete(calls, min(len(calls), MaxRecent), len(calls))
}
