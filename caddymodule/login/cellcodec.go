package login

import (
	"encoding/binary"
	"fmt"
	"time"
)

// cellVersion is the first byte of each value.
const cellVersion = 1

// encodeClientCell returns the value of a client's cell, empty without
// attempts.
func encodeClientCell(log clientLog) []byte {
	if log.latest() == 0 {
		return nil
	}
	return log.appendTo([]byte{cellVersion})
}

func decodeClientCell(value []byte) (clientLog, error) {
	if len(value) == 0 {
		return clientLog{}, nil
	}
	log, whole := readClientLog(value[1:])
	var d decoded
	if value[0] != cellVersion || !whole || !d.addClientLog(log) {
		return clientLog{}, fmt.Errorf("%w: invalid cell of a client", ErrCorrupt)
	}
	return log, nil
}

// encodeAccountCell returns the value of an account's cell, empty without
// failures and known clients: the version, the number of failures (2 bytes),
// the failures, the known clients.
func encodeAccountCell(failed failures, known knownClients) []byte {
	if len(failed) == 0 && len(known) == 0 {
		return nil
	}
	value := binary.LittleEndian.AppendUint16([]byte{cellVersion}, uint16(len(failed)))
	return known.appendTo(failed.appendTo(value))
}

func decodeAccountCell(value []byte) (failures, knownClients, error) {
	if len(value) == 0 {
		return nil, nil, nil
	}
	const header = 1 + 2
	invalid := fmt.Errorf("%w: invalid cell of an account", ErrCorrupt)
	if len(value) < header || value[0] != cellVersion {
		return nil, nil, invalid
	}
	size := failureSize * int(binary.LittleEndian.Uint16(value[1:]))
	if len(value) < header+size {
		return nil, nil, invalid
	}
	failed := readFailures(value[header : header+size])
	rest := decoded{body: value[header+size:]}
	if !rest.addFailures(failed) || !rest.addKnownClients() {
		return nil, nil, invalid
	}
	known, _ := readKnownClients(rest.body) // complete, as just checked
	return failed, known, nil
}

// placed is where the server's clock is, on the scale of a cell's times.
type placed struct {
	instant int64 // at which the attempt counts: not before the latest one
	reading int64 // of the server's clock
	back    int64 // how far the times of the cell move back
}

// place compares the server's clock with the latest time of a cell. A clock
// that is a little behind catches up. If it is further behind, it was set
// back, or another server took over: then the times of the cell move back,
// so that the latest one is now. No window opens early by that, and no
// client waits longer than the rule and the tolerance.
func place(now time.Time, latest int64) placed {
	reading := nanoseconds(now)
	if back := latest - reading; back > int64(tolerance) {
		return placed{reading, reading, back}
	}
	return placed{instant: max(reading, latest), reading: reading}
}

// latest is the latest instant in the cell of an account.
func (k knownClients) latest(failed failures) int64 {
	latest := max(failed.last(), k.lastLogin())
	for _, one := range k {
		latest = max(latest, one.failures.last())
	}
	return latest
}

// moveBack moves times to the past, but not before 1970.
func (t times) moveBack(by int64) {
	for i := range t {
		t[i] = max(0, t[i]-by)
	}
}

func (f failures) moveBack(by int64) {
	for i := range f {
		f[i].at = max(0, f[i].at-by)
	}
}

func (k knownClients) moveBack(by int64) {
	for i := range k {
		k[i].login = max(0, k[i].login-by)
		k[i].failures.moveBack(by)
	}
}
