// Package badgerstore keeps the gate's state in an embedded Badger
// database: one directory, one process.
//
// Everything that a call needs to know is in memory, in a
// ledger.Ledger. Every admission is in a write-ahead log of its own (see
// package wal) before Take returns, so it survives the death of the
// process. The log is synced every second; with Options.Sync it is synced
// before Take returns. Badger is the archive: counts move there from the
// log, each counter once for thousands of calls, and accounts, keys and
// recent calls are written to it at once. It is read when the store opens,
// when a day begins and for keys and history, and never to admit a call.
//
// Badger's own log would do, and did. But a transaction passes through two
// of its goroutines, and waking them costs a single caller some fifty
// microseconds.
//
// # Damage
//
// Badger repairs a damaged directory by dropping what it cannot read, or
// panics. Open therefore verifies the manifest, Badger's write-ahead logs,
// its key registry, the checksum of every table and the log of the counts
// before Badger sees them, and refuses what a crash cannot have left. A loss of power can
// leave a log with a gap, which is refused too. For a log of Badger's the
// error tells where to cut the file to go on without what follows.
//
// Each transaction has a number, and the log of the counts has the number
// of the last one that is on the disk. A database with a lower number has
// lost changes, as when a log of Badger's is missing or empty or its files
// are older than the log of the counts. It is refused.
//
// Some damage looks like a crash or like an older store: a log of the
// counts whose end is lost just behind a complete record, a changed length
// in the last entry of a log of Badger's, recent calls and login attempts
// of the last second, a whole directory that was brought back from a copy,
// and, of two logs of Badger's, the older one while Badger writes it to a
// table.
//
// # Failing disks
//
// After a sync of the log that failed, no call is admitted until every
// counter that moved is in the archive, synced. After a sync of Badger that
// failed, no call is admitted until the store is opened again.
//
// Badger writes through mapped files, and a page that finds no space on
// the disk ends the process with a SIGBUS. Nothing is written and no call
// admitted while less than Options.Reserve is free. Badger ends within the
// reserve what it has begun by then. Another program that fills the disk
// faster than that is beyond what this package can do.
//
// A file system that an error has made read-only answers a write through a
// mapped file with a SIGBUS, too. Before each write to Badger its directory
// is touched, which fails on such a file system.
package badgerstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"
	"go.uber.org/zap"

	"github.com/caddy-tollgate/tollgate/caddymodule/calendar"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
	"github.com/caddy-tollgate/tollgate/caddymodule/store/badgerstore/ledger"
	"github.com/caddy-tollgate/tollgate/caddymodule/token"
)

// DefaultReserve is the free space below which nothing is written any
// more: enough for Badger to flush its memtables and finish a compaction.
const DefaultReserve = 256 << 20

// blockSize is the unit in which Badger reads its tables.
const blockSize = 4 << 10

// sweepEvery is how often what is no longer needed leaves the memory.
const sweepEvery = 10 * time.Minute

// clockAhead is how far ahead the clock may be when the store sweeps or
// opens: a token that has not been expired for longer is not forgotten,
// and works again once the clock is right.
const clockAhead = 48 * time.Hour

// ErrInUse says that another process has the directory open.
var ErrInUse = errors.New("directory is in use by another process")

// Options change how a store works. The zero value is the default.
type Options struct {
	// Sync makes every admission reach the disk before Take returns, and
	// all else that is written soon. It extends the promise from the death
	// of the process to the loss of power.
	Sync bool
	// Reserve is the free space in bytes to leave on the disk. Below it
	// every write is refused with store.ErrUnavailable, until there is
	// space again: Badger does not survive a full disk. Zero means
	// DefaultReserve.
	Reserve uint64
	// Logger receives what goes wrong behind the callers' backs. Nil
	// discards it.
	Logger *zap.Logger

	// For tests.
	segmentSize int                  // of the log, in bytes
	dataSync    func(*os.File) error // of the log
}

// Store is a store.Store in one directory.
type Store struct {
	disk    *disk
	archive *archive
	journal *journal
	ledger  *ledger.Ledger
	log     *zap.Logger
	recent  *recorder

	altering [stripes]sync.Mutex // see alter
	seed     maphash.Seed

	stop     chan struct{}
	done     sync.WaitGroup
	patience time.Duration // of Close; closeWithin

	closing sync.Mutex   // held by Close; guards what follows
	ending  <-chan error // the result of end while it runs, else nil
	stopped bool         // end has refused further calls
	ended   bool         // end has begun to close the database
	result  error        // what that came to
}

var _ store.Store = (*Store)(nil)

// Open opens the store in a directory, which is made if it is missing.
// A directory that another process has open is ErrInUse. A store that is
// damaged is refused: it never begins anew.
func Open(dir string, o Options) (*Store, error) {
	logger := cmp.Or(o.Logger, zap.NewNop())
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making %s: %w", dir, err)
	}
	if err := inspectLocked(dir, logger); err != nil {
		return nil, fmt.Errorf("opening %s: %w", dir, err)
	}
	disk := &disk{dir: dir, reserve: cmp.Or(o.Reserve, DefaultReserve)}
	if err := disk.checkOpen(); err != nil {
		return nil, fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	}
	db, err := openBadger(dir, logger)
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", dir, err)
	}
	s := &Store{disk: disk, log: logger, seed: maphash.MakeSeed(), stop: make(chan struct{}), patience: closeWithin}
	s.archive = &archive{db: db, durable: o.Sync, checkDisk: disk.checkOpen, sync: db.Sync}
	if err := s.begin(o); err != nil {
		return nil, fmt.Errorf("opening %s: %w", dir, errors.Join(err, abandon(db)))
	}
	s.archive.checkDisk = disk.check
	s.recent = newRecorder(s)
	s.done.Go(s.sweep)
	s.done.Go(s.recent.run)
	s.done.Go(func() { s.journal.runSync(s.stop) })
	s.done.Go(func() { s.journal.run(s.stop) })
	return s, nil
}

// begin fills the ledger from what is in the directory.
func (s *Store) begin(o Options) (err error) {
	format, err := s.archive.format()
	if err != nil {
		return err
	}
	s.archive.changes = format.changes
	if s.journal, err = openJournal(s.disk, s.archive, format, o, s.log); err != nil {
		return err
	}
	s.ledger = ledger.New(s.journal)
	s.journal.counts = s.ledger.Moved
	if err := s.load(); err != nil {
		return errors.Join(err, s.journal.log.Close())
	}
	return nil
}

// inspectLocked inspects the directory while no other process has it open,
// and keeps other users out of it.
func inspectLocked(dir string, logger *zap.Logger) error {
	release, err := lock(dir)
	if err != nil {
		return err
	}
	if err := keepPrivate(dir); err != nil {
		logger.Warn("other users may be able to read the store", zap.String("directory", dir), zap.Error(err))
	}
	return errors.Join(inspect(dir), release())
}

// memtable is the size of a memtable. It and the builder that flushes it
// each take somewhat more than that of the heap, which the garbage
// collector doubles, and their files are mapped, so it decides what the
// store adds to the process.
const memtable = 8 << 20

// tableSize is the size of a table. Its builder takes twice that of the
// heap at once, which is enough for a memtable, and as much again if it is
// not.
const tableSize = 18 << 18

// memtableFor returns the size for a directory: the log of a greater
// memtable, which a crash has left, has to fit. Its file has twice the
// size of the memtable.
func memtableFor(dir string) (int64, error) {
	logs, err := list(dir, ".mem")
	size := int64(memtable)
	for _, log := range logs {
		info, failed := os.Stat(log)
		if failed != nil {
			return 0, failed
		}
		size = max(size, info.Size()/2)
	}
	return size, err
}

// openBadger opens the database with settings for small rows that are
// overwritten often. Badger panics on some kinds of damage; that is an
// error like the others.
func openBadger(dir string, logger *zap.Logger) (db *badger.DB, err error) {
	size, err := memtableFor(dir)
	if err != nil {
		return nil, err
	}
	defer func() {
		if r := recover(); r != nil {
			db, err = nil, damaged("%v", r)
		}
	}()
	db, err = badger.Open(badger.DefaultOptions(dir).
		WithLogger(&badgerLogger{log: structured(logger)}).
		WithMemTableSize(size).
		WithNumMemtables(2).
		WithBaseTableSize(tableSize).
		WithValueLogFileSize(16 << 20).
		WithValueThreshold(maxValue).
		WithBlockCacheSize(4 << 20).
		WithIndexCacheSize(2 << 20).
		WithCompression(options.None).
		WithBlockSize(blockSize).
		WithMetricsEnabled(false).
		WithNumCompactors(2).
		WithChecksumVerificationMode(options.OnBlockRead). // inspect has verified the tables
		WithDetectConflicts(false))
	if err != nil && strings.Contains(err.Error(), "Cannot acquire directory lock") {
		return nil, ErrInUse
	}
	return db, err
}

// Grant implements store.Grants.
func (s *Store) Grant(_ context.Context, hash token.Hash, now time.Time) (store.Grant, error) {
	return s.ledger.Grant(&hash, now)
}

// Take implements store.Counter.
func (s *Store) Take(_ context.Context, call store.Call, limits []store.Limit, remaining []int64) (bool, error) {
	return s.ledger.Take(call, limits, remaining)
}

// GiveBack implements store.Counter.
func (s *Store) GiveBack(_ context.Context, call store.Call) error {
	return s.ledger.GiveBack(call)
}

// sweep frees the memory of tokens that expired long ago and of days that
// are over.
func (s *Store) sweep() {
	ticker := time.NewTicker(sweepEvery)
	defer ticker.Stop()
	for {
		select {
		case <-s.stop:
			return
		case now := <-ticker.C:
			s.forget(now)
		}
	}
}

// forget keeps the days around now in any time zone, and those of which
// the archive does not have all. A day that is let go and asked for again
// is read from the archive.
func (s *Store) forget(now time.Time) {
	s.ledger.RemoveExpired(now.Add(-clockAhead))
	today := calendar.Day(now.Unix() / int64(24*time.Hour/time.Second))
	s.ledger.RetainDays(func(d calendar.Day) bool { return d >= today-2 && d <= today+2 || s.journal.holds(d) })
}

// load reads accounts and keys.
func (s *Store) load() error {
	err := scanParallel(s.archive.db, []byte{prefixAccount}, func(key, value []byte) error {
		a, err := decodeAccount(string(key[1:]), value)
		if err == nil {
			s.ledger.PutAccount(a.ID, a.Plan, a.Disabled)
		}
		return err
	})
	if err != nil {
		return err
	}
	now := time.Now().Add(-clockAhead)
	return scanParallel(s.archive.db, []byte{prefixKey}, func(key, value []byte) error {
		k, err := decodeKey(key, value)
		if err == nil && k.Live(now) {
			s.putToken(k)
		}
		return err
	})
}
