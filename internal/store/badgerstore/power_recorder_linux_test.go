//go:build !386 && !arm && !mipsle

package badgerstore_test

import (
	"bufio"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// How long a sync of the recorded file system takes at least, so that a power cut
// can happen while one runs: any, and that of a table of Badger, so that segments
// of the log end while a memtable is in no table yet.
const (
	syncTakes      = time.Millisecond
	tableSyncTakes = 200 * time.Millisecond
)

// op is an operation that changes the recorded file system.
type op struct {
	Kind     opKind
	Ended    int64 // of the clock that all processes share, see clock
	Ino      uint64
	Path, To string // relative to the file system; To is a new name
	At       int64  // where a write begins, or the size of a truncate
	Data     []byte
	// A sync began then, and covers so many operations.
	Began  int64
	Covers int
}

type opKind int

const (
	opWrite opKind = iota
	opTruncate
	opCreate
	opMkdir
	opRename
	opUnlink
	opSync
	opSyncDir
)

// clock is in nanoseconds, and the same in all processes.
func clock() int64 {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) // it cannot fail on Linux
	return t.Nano()
}

// recorder is a file system that passes all on to another directory, and writes
// each change to a file before it answers. Pages of mapped files are changes, too.
type recorder struct {
	mu  sync.Mutex // held for each change, so that the order is right
	out *gob.Encoder
	ops int
}

// runRecorder is a child that mounts dir/back at dir/mnt until it is unmounted,
// and records to a file. It is a process of its own: one that has mapped a file
// of a file system that it serves itself can stop for ever.
func runRecorder(dir, ops string) error {
	file, err := os.Create(ops)
	if err != nil {
		return err
	}
	buffer := bufio.NewWriterSize(file, 1<<20)
	r := &recorder{out: gob.NewEncoder(buffer)}
	data := &fs.LoopbackRoot{Path: filepath.Join(dir, "back")}
	data.RootNode = &recordedNode{&fs.LoopbackNode{RootData: data}, r}
	second := time.Second
	server, err := fs.Mount(filepath.Join(dir, "mnt"), data.RootNode, &fs.Options{
		AttrTimeout: &second, EntryTimeout: &second,
		MountOptions: fuse.MountOptions{DirectMount: true, FsName: "recorder", MaxWrite: 1 << 20},
	})
	if err != nil {
		return err
	}
	server.Wait()
	return errors.Join(buffer.Flush(), file.Close())
}

// do makes a change and records it if it succeeds.
func (r *recorder) do(o *op, change func() syscall.Errno) syscall.Errno {
	r.mu.Lock()
	defer r.mu.Unlock()
	if errno := change(); errno != 0 {
		return errno
	}
	o.Ended = clock()
	r.ops++
	if err := r.out.Encode(o); err != nil {
		fmt.Fprintln(os.Stderr, "recording:", err)
		os.Exit(1)
	}
	return 0
}

// sync records a sync. It covers what was recorded when it began.
func (r *recorder) sync(o op, takes time.Duration) syscall.Errno {
	r.mu.Lock()
	o.Began, o.Covers = clock(), r.ops
	r.mu.Unlock()
	time.Sleep(takes)
	return r.do(&o, func() syscall.Errno { return 0 })
}

// recordedNode is a file or a directory.
type recordedNode struct {
	*fs.LoopbackNode
	r *recorder
}

// WrapChild implements fs.NodeWrapChilder.
func (n *recordedNode) WrapChild(_ context.Context, child fs.InodeEmbedder) fs.InodeEmbedder {
	return &recordedNode{child.(*fs.LoopbackNode), n.r}
}

func (n *recordedNode) path(name string) string { return filepath.Join(n.Path(n.Root()), name) }

func (n *recordedNode) Create(ctx context.Context, name string, flags, mode uint32, out *fuse.EntryOut) (inode *fs.Inode, h fs.FileHandle, _ uint32, errno syscall.Errno) {
	o := op{Kind: opCreate, Path: n.path(name)}
	errno = n.r.do(&o, func() syscall.Errno {
		if inode, h, _, errno = n.LoopbackNode.Create(ctx, name, flags, mode, out); errno == 0 {
			o.Ino = inode.StableAttr().Ino
		}
		return errno
	})
	if errno != 0 {
		return nil, nil, 0, errno
	}
	return inode, &recordedFile{h.(*fs.LoopbackFile), inode.Operations().(*recordedNode)}, fuse.FOPEN_KEEP_CACHE, 0
}

// Open never truncates: the kernel does that with Setattr.
func (n *recordedNode) Open(ctx context.Context, flags uint32) (fs.FileHandle, uint32, syscall.Errno) {
	h, _, errno := n.LoopbackNode.Open(ctx, flags&^unix.O_TRUNC)
	if errno != 0 {
		return nil, 0, errno
	}
	return &recordedFile{h.(*fs.LoopbackFile), n}, fuse.FOPEN_KEEP_CACHE, 0
}

func (n *recordedNode) Mkdir(ctx context.Context, name string, mode uint32, out *fuse.EntryOut) (inode *fs.Inode, errno syscall.Errno) {
	errno = n.r.do(&op{Kind: opMkdir, Path: n.path(name)}, func() syscall.Errno {
		inode, errno = n.LoopbackNode.Mkdir(ctx, name, mode, out)
		return errno
	})
	return inode, errno
}

func (n *recordedNode) Unlink(ctx context.Context, name string) syscall.Errno {
	return n.r.do(&op{Kind: opUnlink, Path: n.path(name)}, func() syscall.Errno { return n.LoopbackNode.Unlink(ctx, name) })
}

func (n *recordedNode) Rename(ctx context.Context, name string, parent fs.InodeEmbedder, to string, flags uint32) syscall.Errno {
	o := op{Kind: opRename, Path: n.path(name), To: parent.(*recordedNode).path(to)}
	return n.r.do(&o, func() syscall.Errno { return n.LoopbackNode.Rename(ctx, name, parent, to, flags) })
}

// Setattr records sizes only: no test loses the mode of a file.
func (n *recordedNode) Setattr(ctx context.Context, h fs.FileHandle, in *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	size, resized := in.GetSize()
	if !resized {
		return n.LoopbackNode.Setattr(ctx, h, in, out)
	}
	o := op{Kind: opTruncate, Ino: n.StableAttr().Ino, At: int64(size)}
	return n.r.do(&o, func() syscall.Errno { return n.LoopbackNode.Setattr(ctx, h, in, out) })
}

func (n *recordedNode) OpendirHandle(ctx context.Context, flags uint32) (fs.FileHandle, uint32, syscall.Errno) {
	h, flags, errno := n.LoopbackNode.OpendirHandle(ctx, flags)
	if errno != 0 {
		return nil, 0, errno
	}
	return &recordedDir{h.(dirHandle), n}, flags, 0
}

// dirHandle is what a directory is read with.
type dirHandle interface {
	fs.FileReaddirenter
	fs.FileSeekdirer
	fs.FileReleasedirer
}

type recordedDir struct {
	dirHandle
	n *recordedNode
}

func (d *recordedDir) Fsyncdir(context.Context, uint32) syscall.Errno {
	return d.n.r.sync(op{Kind: opSyncDir, Path: d.n.path(".")}, syncTakes)
}

// recordedFile is an open file.
type recordedFile struct {
	*fs.LoopbackFile
	n *recordedNode
}

func (f *recordedFile) Write(ctx context.Context, data []byte, at int64) (n uint32, errno syscall.Errno) {
	errno = f.n.r.do(&op{Kind: opWrite, Ino: f.n.StableAttr().Ino, At: at, Data: data}, func() syscall.Errno {
		n, errno = f.LoopbackFile.Write(ctx, data, at)
		return errno
	})
	return n, errno
}

func (f *recordedFile) Writev(ctx context.Context, parts [][]byte, at int64) (uint32, syscall.Errno) {
	return f.Write(ctx, slices.Concat(parts...), at)
}

func (f *recordedFile) Fsync(context.Context, uint32) syscall.Errno {
	o, takes := op{Kind: opSync, Ino: f.n.StableAttr().Ino, Path: f.n.path("")}, syncTakes
	if strings.HasSuffix(o.Path, ".sst") {
		takes = tableSyncTakes
	}
	return f.n.r.sync(o, takes)
}

// Allocate is refused, because what it changes is not recorded.
func (f *recordedFile) Allocate(context.Context, uint64, uint64, uint32) syscall.Errno {
	return syscall.ENOTSUP
}

// PassthroughFd keeps the kernel from writing to the other directory by itself.
func (f *recordedFile) PassthroughFd() (int, bool) { return 0, false }
