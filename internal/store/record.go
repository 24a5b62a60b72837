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
	Account  string    `cbor:"-" json:"-"`
	Key      string    `cbor:"1,keyasint,omitempty" json:"key,omitempty"` // the key's id
	KeyName  string    `cbor:"2,keyasint,omitempty" json:"key_name,omitempty"`
	At       time.Time `cbor:"3,keyasint" json:"at"`
	Endpoint string    `cbor:"4,keyasint" json:"endpoint"`
	Method   string    `cbor:"5,keyasint" json:"method"`
	// Path is what CutPath leaves of it once the store has it.
	Path   string `cbor:"6,keyasint" json:"path"`
	Status int    `cbor:"7,keyasint" json:"status"`
	// Code is why the gate refused the call. It is empty for an admitted call.
	Code     string        `cbor:"8,keyasint,omitempty" json:"code,omitempty"`
	Duration time.Duration `cbor:"9,keyasint" json:"duration_ns"`
	// RequestID is the id that the web server gave the request. It is empty
	// if nothing else shows it.
	RequestID string `cbor:"10,keyasint,omitempty" json:"request_id,omitempty"`
	// Cost is what the call counted; 0 if it was refused or refunded.
	Cost int64 `cbor:"11,keyasint,omitempty" json:"cost"`
	// From is the client's address, if it is known. The store keeps it as
	// the LastUsedFrom of the key only.
	From netip.Addr `cbor:"-" json:"-"`
	// Handle is the Handle of the grant, or zero. With it, the record is
	// dropped if the account was deleted after the grant, also if there is
	// a new account with that id. The store does not keep it.
	Handle Handle `cbor:"-" json:"-"`
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
