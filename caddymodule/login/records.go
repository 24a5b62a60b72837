package login

import (
	"cmp"
	"encoding/binary"
	"slices"
	"time"
)

// times are the instants of a client's attempts, oldest first.
type times []int64

func readTimes(body []byte) (t times) {
	for ; len(body) >= 8; body = body[8:] {
		t = append(t, int64(binary.LittleEndian.Uint64(body)))
	}
	return t
}

func (t times) appendTo(body []byte) []byte {
	for _, at := range t {
		body = binary.LittleEndian.AppendUint64(body, uint64(at))
	}
	return body
}

// after returns the times later than an instant.
func (t times) after(instant int64) times {
	for i, at := range t {
		if at > instant {
			return t[i:]
		}
	}
	return nil
}

func (t times) last() int64 {
	if len(t) == 0 {
		return 0
	}
	return t[len(t)-1]
}

// failure is a failed or in-flight attempt at an account.
type failure struct {
	at     int64
	client fingerprint
}

const failureSize = 8 + len(fingerprint{})

// failures are an account's failures, oldest first.
type failures []failure

func readFailures(body []byte) (f failures) {
	for ; len(body) >= failureSize; body = body[failureSize:] {
		f = append(f, failure{
			at:     int64(binary.LittleEndian.Uint64(body)),
			client: fingerprint(body[8:failureSize]),
		})
	}
	return f
}

func (f failures) appendTo(body []byte) []byte {
	for _, one := range f {
		body = binary.LittleEndian.AppendUint64(body, uint64(one.at))
		body = append(body, one.client[:]...)
	}
	return body
}

// remembered returns the failures after the last gap of forget or longer.
// The gap may lie within the list, where an attempt was taken back.
func (f failures) remembered(instant int64, forget time.Duration) failures {
	next := instant
	for i, one := range slices.Backward(f) {
		if one.at+int64(forget) <= next {
			return f[i+1:]
		}
		next = one.at
	}
	return f
}

// newest returns the newest n failures.
func (f failures) newest(n int) failures { return f[max(0, len(f)-n):] }

// without deletes a value from a list, once.
func without[S ~[]E, E comparable](list S, value E) S {
	if i := slices.Index(list, value); i >= 0 {
		return slices.Delete(list, i, i+1)
	}
	return list
}

func (f failures) withoutClient(client fingerprint) failures {
	return slices.DeleteFunc(f, func(one failure) bool { return one.client == client })
}

func (f failures) last() int64 {
	if len(f) == 0 {
		return 0
	}
	return f[len(f)-1].at
}

// maxKnown is how many known clients an account has. Phones often change
// their addresses, but only a success adds a client.
const maxKnown = 16

// knownClient is a client that logged in to an account.
type knownClient struct {
	client   fingerprint
	login    int64    // instant of the latest success
	failures failures // of this client, since then
}

const knownClientSize = len(fingerprint{}) + 8 + 2

// knownClients are the known clients of an account.
type knownClients []knownClient

func (k knownClients) appendTo(body []byte) []byte {
	for _, one := range k {
		body = append(body, one.client[:]...)
		body = binary.LittleEndian.AppendUint64(body, uint64(one.login))
		body = binary.LittleEndian.AppendUint16(body, uint16(len(one.failures)))
		for _, failed := range one.failures {
			body = binary.LittleEndian.AppendUint64(body, uint64(failed.at))
		}
	}
	return body
}

// readKnownClients returns false if the body ends within a client.
func readKnownClients(body []byte) (k knownClients, complete bool) {
	for len(body) > 0 {
		if len(body) < knownClientSize {
			return nil, false
		}
		one := knownClient{
			client: fingerprint(body[:len(fingerprint{})]),
			login:  int64(binary.LittleEndian.Uint64(body[len(fingerprint{}):])),
		}
		size := 8 * int(binary.LittleEndian.Uint16(body[knownClientSize-2:]))
		body = body[knownClientSize:]
		if len(body) < size {
			return nil, false
		}
		for _, at := range readTimes(body[:size]) {
			one.failures = append(one.failures, failure{at, one.client})
		}
		k = append(k, one)
		body = body[size:]
	}
	return k, true
}

func (k knownClients) find(client fingerprint) *knownClient {
	for i := range k {
		if k[i].client == client {
			return &k[i]
		}
	}
	return nil
}

// add adds a client that logged in, without failures. The client whose login
// is oldest makes room.
func (k knownClients) add(client fingerprint, at int64) knownClients {
	k = slices.DeleteFunc(k, func(one knownClient) bool { return one.client == client })
	if len(k) >= maxKnown {
		oldest := slices.MinFunc(k, func(a, b knownClient) int { return cmp.Compare(a.login, b.login) })
		k = slices.DeleteFunc(k, func(one knownClient) bool { return one.client == oldest.client })
	}
	return append(k, knownClient{client: client, login: at})
}

// lastLogin is the instant of the latest success of any client.
func (k knownClients) lastLogin() int64 {
	var last int64
	for _, one := range k {
		last = max(last, one.login)
	}
	return last
}
