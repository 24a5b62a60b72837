package wal

import (
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// newFlusher returns a flusher that holds up no thread, where the system
// has room for one.
func newFlusher() flusher {
	if a, err := newAside(); err == nil {
		return a
	}
	return direct{}
}

// aside flushes by Linux's asynchronous I/O (io_submit(2)): the disk is
// waited for like a connection, while the thread runs other calls. A
// thread that waits in a system call keeps its processor from all other
// goroutines until the runtime has noticed, which costs it more than the
// sync itself.
type aside struct {
	context uintptr // aio_context_t
	done    *os.File
	signal  uint32 // done's descriptor

	request  control
	requests [1]*control
	result   event
	count    [8]byte // of results, as done counts them
}

// control is struct iocb, and event is struct io_event of linux/aio_abi.h.
type (
	control struct {
		_      [2]uint64 // aio_data, aio_key, aio_rw_flags
		opcode uint16
		_      int16 // aio_reqprio
		file   uint32
		buf    uint64
		nbytes uint64
		_      [2]uint64 // aio_offset, aio_reserved2
		flags  uint32
		signal uint32
	}
	event struct {
		data, request uint64
		result        int64
		result2       int64
	}
)

const (
	dataSync   = 3 // IOCB_CMD_FDSYNC
	withSignal = 1 // IOCB_FLAG_RESFD
)

func newAside() (*aside, error) {
	a := &aside{}
	if _, _, errno := unix.Syscall(unix.SYS_IO_SETUP, uintptr(len(a.requests)), uintptr(unsafe.Pointer(&a.context)), 0); errno != 0 {
		return nil, fmt.Errorf("io_setup: %w", errno)
	}
	signal, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("eventfd: %w", err), a.destroy())
	}
	a.signal, a.done, a.requests[0] = uint32(signal), os.NewFile(uintptr(signal), "eventfd"), &a.request
	return a, nil
}

// flush flushes all of the segment that is not on the disk yet, which is
// what there is between the places. What the system cannot do aside, or
// not now, it does at once.
func (a *aside) flush(s *Segment, from, to int) error {
	begun, err := a.do(control{opcode: dataSync, file: uint32(s.file.Fd.Fd())})
	if !begun {
		return direct{}.flush(s, from, to)
	}
	return err
}

// do makes a request and waits for its end. It tells whether the request
// was begun.
func (a *aside) do(request control) (begun bool, err error) {
	a.request = request
	a.request.flags, a.request.signal = withSignal, a.signal
	_, _, errno := unix.Syscall(unix.SYS_IO_SUBMIT, a.context, uintptr(len(a.requests)), uintptr(unsafe.Pointer(&a.requests)))
	if errno != 0 {
		return false, fmt.Errorf("io_submit: %w", errno)
	}
	if _, err := a.done.Read(a.count[:]); err != nil {
		return true, fmt.Errorf("waiting: %w", err)
	}
	n, _, errno := unix.Syscall6(unix.SYS_IO_GETEVENTS, a.context, 1, 1, uintptr(unsafe.Pointer(&a.result)), 0, 0)
	if errno != 0 || n != 1 {
		return true, fmt.Errorf("io_getevents: %d results: %w", n, errno)
	}
	if a.result.result < 0 {
		return true, unix.Errno(-a.result.result)
	}
	return true, nil
}

func (a *aside) close() error { return errors.Join(a.destroy(), a.done.Close()) }

func (a *aside) destroy() error {
	if _, _, errno := unix.Syscall(unix.SYS_IO_DESTROY, a.context, 0, 0); errno != 0 {
		return fmt.Errorf("io_destroy: %w", errno)
	}
	return nil
}
