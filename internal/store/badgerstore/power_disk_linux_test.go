//go:build !386 && !arm && !mipsle

package badgerstore_test

import (
	"bufio"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const (
	pageSize   = 4096 // of the memory that the kernel writes to a disk
	sectorSize = 512  // what a disk writes at once
)

// powerFile is what a file has. A page never changes, so copies share them.
type powerFile struct {
	size  int64
	pages map[int64][]byte // those that are no hole
}

func (c *powerFile) clone() *powerFile {
	if c == nil {
		return &powerFile{pages: map[int64][]byte{}}
	}
	return &powerFile{c.size, maps.Clone(c.pages)}
}

func (c *powerFile) write(at int64, data []byte) {
	for len(data) > 0 {
		number, from := at/pageSize, at%pageSize
		page := make([]byte, pageSize)
		copy(page, c.pages[number])
		n := copy(page[from:], data)
		c.pages[number] = page
		at, data = at+int64(n), data[n:]
	}
	c.size = max(c.size, at)
}

func (c *powerFile) truncate(size int64) {
	if size < c.size {
		maps.DeleteFunc(c.pages, func(number int64, _ []byte) bool { return number*pageSize >= size })
		if page := c.pages[size/pageSize]; page != nil {
			c.pages[size/pageSize] = append(page[:size%pageSize:size%pageSize], make([]byte, pageSize-size%pageSize)...)
		}
	}
	c.size = size
}

func (c *powerFile) apply(o *op) {
	if o.Kind == opTruncate {
		c.truncate(o.At)
	} else {
		c.write(o.At, o.Data)
	}
}

func (c *powerFile) save(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	for number, page := range c.pages {
		_, failed := f.WriteAt(page, number*pageSize)
		err = errors.Join(err, failed)
	}
	return errors.Join(err, f.Truncate(c.size), f.Close())
}

// readOps reads what a recorder has written.
func readOps(path string) (ops []*op, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for in := gob.NewDecoder(bufio.NewReaderSize(f, 1<<20)); ; {
		o := new(op)
		if err := in.Decode(o); err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return ops, err
		}
		ops = append(ops, o)
	}
}

// powerDisk is what is surely on a disk after the first operations of a
// recording, and what may be there.
type powerDisk struct {
	ops     []*op
	at      int                   // how many operations were made
	files   map[uint64]*powerFile // by their inodes, what was synced
	pending map[uint64][]int      // operations on their content that were not
	names   []int                 // operations on names

	// How many operations the last sync of any file or directory covers, and that of
	// a directory.
	synced int
	dirs   map[string]int
	// How many operations the last write to Badger's manifest follows, and its inode.
	manifest    int
	manifestIno uint64

	segment   string // the path of the newest segment of the log
	logSynced int64  // when the last sync of it began
}

func newPowerDisk(ops []*op) *powerDisk {
	return &powerDisk{ops: ops, files: map[uint64]*powerFile{}, pending: map[uint64][]int{}, dirs: map[string]int{}}
}

// advance makes operations until so many are made.
func (d *powerDisk) advance(to int) {
	for ; d.at < to; d.at++ {
		o := d.ops[d.at]
		switch o.Kind {
		case opWrite, opTruncate:
			d.pending[o.Ino] = append(d.pending[o.Ino], d.at)
			if o.Ino == d.manifestIno {
				d.manifest = d.at
			}
		case opSync:
			d.sync(o)
		case opSyncDir:
			d.synced, d.dirs[o.Path] = max(d.synced, o.Covers), max(d.dirs[o.Path], o.Covers)
		default:
			d.names = append(d.names, d.at)
			if filepath.Ext(o.To) == ".log" {
				d.segment = o.To
			}
		}
	}
}

func (d *powerDisk) sync(o *op) {
	d.synced = max(d.synced, o.Covers)
	file, pending := d.files[o.Ino].clone(), d.pending[o.Ino]
	for len(pending) > 0 && pending[0] < o.Covers {
		file.apply(d.ops[pending[0]])
		pending = pending[1:]
	}
	d.files[o.Ino], d.pending[o.Ino] = file, pending
	switch {
	case filepath.Base(o.Path) == "MANIFEST":
		d.manifestIno, d.manifest = o.Ino, max(d.manifest, o.Covers)
	case o.Path == d.segment:
		d.logSynced = max(d.logSynced, o.Began)
	}
}

// Ways to lose what was not synced.
const (
	loseAll     = "none"   // nothing of it is there
	loseNone    = "all"    // all of it is there
	loseEnds    = "prefix" // of each file the first writes are there, and a part of one
	losePages   = "rand"   // each page is as after some of its writes
	loseSectors = "torn"   // each sector is
	loseData    = "zero"   // files have their sizes, and zeros
)

var powerWays = []string{loseAll, loseNone, loseEnds, losePages, loseSectors, loseData}

// cut is a power cut.
type cut struct {
	at     int // the first operation that is not complete
	way    string
	strict bool // any name can be lost until its directory is synced
	*rand.Rand
}

func (c *cut) String() string {
	return fmt.Sprintf("power cut before operation %d, of unsynced writes %s is left, strict: %t", c.at, c.way, c.strict)
}

// left is what a power cut leaves: directories and files.
type left struct {
	dirs      []string
	files     map[string]*powerFile
	ended     int64 // when the power was cut
	logSynced int64 // when the last sync of the log began that was complete
}

// save writes it to a directory.
func (l *left) save(dir string) error {
	err := os.MkdirAll(dir, 0o700)
	for _, name := range l.dirs {
		err = errors.Join(err, os.MkdirAll(filepath.Join(dir, name), 0o700))
	}
	for path, file := range l.files {
		err = errors.Join(err, file.save(filepath.Join(dir, path)))
	}
	return err
}

// cut returns what a power cut leaves after the operations that were made.
func (d *powerDisk) cut(c *cut) *left {
	l := &left{files: map[string]*powerFile{}, ended: d.ops[d.at].Ended, logSynced: d.logSynced}
	// ext4 keeps names and sizes in their order, and a sync keeps all before it.
	kept := d.synced
	switch c.way {
	case loseNone:
		kept = d.at
	case loseEnds, losePages, loseSectors:
		kept += c.IntN(d.at - kept + 1)
	}
	names := d.namesLeft(c, kept, l)
	for _, path := range slices.Sorted(maps.Keys(names)) { // in order, so that a seed repeats it
		ino := names[path]
		file := d.files[ino].clone()
		d.loseWrites(c, kept, file, d.pending[ino])
		l.files[path] = file
	}
	return l
}

// namesLeft returns the names that are there, with their inodes.
func (d *powerDisk) namesLeft(c *cut, kept int, l *left) map[string]uint64 {
	names, dirs := map[string]uint64{}, map[string]bool{".": true}
	for _, at := range d.names {
		o := d.ops[at]
		if !c.strict && at >= kept || c.strict && !d.keepsName(c, at) || !dirs[filepath.Dir(o.Path)] {
			continue
		}
		switch o.Kind {
		case opMkdir:
			dirs[o.Path] = true
			l.dirs = append(l.dirs, o.Path)
		case opCreate:
			names[o.Path] = o.Ino
		case opRename:
			if ino, ok := names[o.Path]; ok {
				names[o.To] = ino
				delete(names, o.Path)
			}
		case opUnlink:
			delete(names, o.Path)
		}
	}
	return names
}

// keepsName tells whether a strict file system keeps an operation on names.
//
// There is an exception. Badger names a new table in its synced manifest before it
// syncs the directory (db.handleMemTableFlush, which calls table.CreateTable and
// levelsController.addLevel0Table; only compactions sync it). It refuses to open
// without the table, and nothing else can sync in between. File systems with a
// journal keep the name when they keep what is later written to the manifest, also
// before its sync.
func (d *powerDisk) keepsName(c *cut, at int) bool {
	o := d.ops[at]
	synced := d.dirs[filepath.Dir(o.Path)]
	if strings.HasSuffix(o.Path, ".sst") && o.Kind == opCreate {
		synced = max(synced, d.manifest)
	}
	switch {
	case at < synced, c.way == loseNone:
		return true
	case c.way == loseAll, c.way == loseData:
		return false
	}
	return c.IntN(2) == 0
}

// loseWrites applies a part of the pending operations to a file.
func (d *powerDisk) loseWrites(c *cut, kept int, file *powerFile, pending []int) {
	var ops []*op
	all, shrinks := file.clone(), false
	for _, at := range pending {
		o := d.ops[at]
		if o.Kind == opTruncate && !c.strict && at >= kept {
			continue // in the journal with the names
		}
		shrinks = shrinks || o.Kind == opTruncate && o.At < all.size
		ops = append(ops, o)
		all.apply(o)
	}
	switch way := c.way; {
	case way == loseAll:
		for _, o := range ops {
			if o.Kind == opTruncate && !c.strict {
				file.apply(o)
			}
		}
	case way == loseNone:
		*file = *all
	case way == loseData && !shrinks:
		file.truncate(max(file.size, all.size))
	case way == losePages && !shrinks:
		loseUnits(c, pageSize, file, ops)
	case way == loseSectors && !shrinks:
		loseUnits(c, sectorSize, file, ops)
	default:
		loseEnd(c, file, ops)
	}
}

// loseEnd applies the first operations, and a part of the next one.
func loseEnd(c *cut, file *powerFile, ops []*op) {
	n := c.IntN(len(ops) + 1)
	for _, o := range ops[:n] {
		file.apply(o)
	}
	if n < len(ops) && ops[n].Kind == opWrite {
		o := ops[n]
		end := (o.At + c.Int64N(int64(len(o.Data))+1)) / sectorSize * sectorSize
		if end > o.At {
			file.write(o.At, o.Data[:end-o.At])
		}
	}
}

// loseUnits makes each unit as after some of the writes to it.
func loseUnits(c *cut, unit int64, file *powerFile, ops []*op) {
	units := map[int64][]*op{}
	var order []int64
	for _, o := range ops {
		if o.Kind == opTruncate {
			file.truncate(o.At)
			continue
		}
		for u := o.At / unit; u*unit < o.At+int64(len(o.Data)); u++ {
			if units[u] == nil {
				order = append(order, u)
			}
			units[u] = append(units[u], o)
		}
	}
	for _, u := range order {
		for _, o := range units[u][:c.IntN(len(units[u])+1)] {
			from, to := max(u*unit, o.At), min((u+1)*unit, o.At+int64(len(o.Data)))
			file.write(from, o.Data[from-o.At:to-o.At])
		}
	}
}
