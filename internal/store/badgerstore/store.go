// Package badgerstore keeps the gate's state in an embedded Badger
// database: one directory, one process.
//
// A ledger.Ledger in memory has everything that a call needs. Every admission
// is in a write-ahead log (see package wal) before Take returns, so it
// survives the death of the process. The log is synced every second; with
// Options.Sync it is synced before Take returns. The rows of a change of an
// account are in the same log, and it is synced, before the change is made. Badger
// is the archive. Counts are written to it when a segment of the log has ended,
// each counter once for thousands of calls; documents and rows at once. It is read
// when the store opens, when a day begins and for documents and rows, and never
// to admit a call.
//
// The log is not Badger's because Badger hands a transaction to two of its
// goroutines, and waking them costs a single caller about fifty microseconds.
// Badger's own logs are not needed for what is in ours: it is written to Badger
// again when the store opens, and before a segment of ours is removed. Only what
// may be lost is in Badger alone: recent calls, refused calls and login attempts.
//
// # Damage
//
// Badger repairs a damaged directory by dropping what it cannot read, or
// panics. So Open verifies the manifest, Badger's key registry, the checksum of
// every table and the log before Badger opens them, and refuses what a crash or a
// loss of power cannot have left. Each transaction that Badger must keep has a
// number. Open refuses a database that lacks one of them, or that has fewer than
// the log needs: a table or a log of Badger is missing or damaged, or its files are
// older than the log.
//
// Some damage looks like a loss of power or like an older copy and is not detected:
//   - the log has lost what was written after the last sync
//   - recent calls, login attempts and refused calls are lost
//   - the whole directory comes from an older copy
//
// # Failing disks
//
// After a failed sync of the log, no call is admitted until every counter and row
// that changed is in the archive and synced. After a failed sync of Badger, no call
// is admitted until the store is opened again.
//
// Badger writes through mapped files. A page that finds no space on the disk
// ends the process with a SIGBUS. So nothing is written and no call admitted
// while less than DefaultReserve is free. The reserve is enough for the work
// that Badger has begun by then. It does not help if another program fills the
// disk faster.
//
// A file system that an error has made read-only also answers a write through
// a mapped file with a SIGBUS. Before each write to Badger its directory is
// touched, which fails on such a file system.
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
	"sync/atomic"
	"time"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"
	"go.uber.org/zap"

	"github.com/caddy-tollgate/tollgate/internal/calendar"
	"github.com/caddy-tollgate/tollgate/internal/outage"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/badgerstore/ledger"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
	"github.com/caddy-tollgate/tollgate/internal/system"
	"github.com/caddy-tollgate/tollgate/internal/token"
)

// DefaultReserve is the free space to leave on the disk, in bytes: enough for
// Badger to flush its memtables and finish a compaction. Below it all writes are
// refused with store.ErrUnavailable until there is space again, because Badger
// does not survive a full disk.
const DefaultReserve = 256 << 20

// blockSize is the unit in which Badger reads its tables.
const blockSize = 4 << 10

// sweepEvery is how often expired tokens and old days are removed from memory.
const sweepEvery = 10 * time.Minute

// clockAhead is how far ahead the clock may be when the store sweeps or opens.
// A token is kept for so long after it expired, so that it is valid again when
// the clock is right.
const clockAhead = 48 * time.Hour

// ErrInUse says that another process has the directory open. It is a
// store.ErrInUse.
var ErrInUse error = errInUse{}

type errInUse struct{}

func (errInUse) Error() string { return "directory is in use by another process" }

func (errInUse) Is(target error) bool { return target == store.ErrInUse }

// Options of a store. The zero value is the default.
type Options struct {
	// Sync makes every call reach the disk before it is admitted, so that it
	// survives a loss of power and not only the death of the process.
	Sync bool
	// Logger receives errors of the background. Nil discards them.
	Logger *zap.Logger
	// Committed is called after each group commit of counts, with its time
	// and how many calls it had. It must be fast, because calls wait for it.
	// Nil is not called.
	Committed func(took time.Duration, calls int)

	// Reserve is the least free space of the disk, in bytes. DefaultReserve
	// if it is zero. Tests and benchmarks set it.
	Reserve uint64

	// Of the log, for tests.
	segmentSize int // in bytes
	dataSync    func(*os.File) error
	batchRows   int // batchRows if it is zero
}

// Store is a book.Engine in one directory.
type Store struct {
	disk    *disk
	archive *archive
	journal *journal
	ledger  *ledger.Ledger
	log     *zap.Logger

	changing [stripes]sync.Mutex // see lock
	receipts [stripes]sync.Mutex // see keep

	archiving sync.Mutex // guards open
	open      *receipts  // that take more; see archiveReceipt
	seed      maphash.Seed
	// lastEntry is the id of the last entry of the audit log; archive.mu guards
	// it. shown is that of the last one that is on the disk.
	lastEntry store.EntryID
	shown     atomic.Pointer[store.EntryID]

	stop     chan struct{}
	done     sync.WaitGroup
	patience time.Duration // of Close; closeWithin

	closing sync.Mutex   // held by Close; guards what follows
	ending  <-chan error // the result of end while it runs, else nil
	stopped bool         // the store refuses further calls
	ended   bool         // end has closed the database
	result  error        // the error of that
}

var _ book.Engine = (*Store)(nil)

// Open opens the store in a directory, and creates a missing directory. If
// another process has the directory open, the error is ErrInUse. A damaged
// store is refused and never replaced by an empty one.
func Open(dir string, o Options) (*Store, error) {
	logger := cmp.Or(o.Logger, zap.NewNop())
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if err := makeDir(dir); err != nil {
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
	s.archive = &archive{db: db, checkDisk: disk.checkOpen, sync: db.Sync}
	if err := s.begin(o); err != nil {
		return nil, fmt.Errorf("opening %s: %w", dir, errors.Join(err, s.archive.abandon()))
	}
	s.archive.checkDisk = disk.check
	s.done.Go(s.sweep)
	s.done.Go(func() { s.journal.runSync(s.stop) })
	s.done.Go(func() { s.journal.run(s.stop) })
	s.done.Go(func() { s.journal.everySecond(s.stop, "deleting expired rows", newPurger(s.archive, time.Now).step) })
	return s, nil
}

// begin fills the ledger from the directory.
func (s *Store) begin(o Options) (err error) {
	format, err := s.archive.format()
	if err != nil {
		return err
	}
	if s.journal, err = openJournal(s.disk, s.archive, format, o, s.log); err != nil {
		return err
	}
	s.ledger = ledger.New(s.journal)
	s.journal.counts = s.ledger.Moved
	if err := errors.Join(s.loadEntries(), s.load()); err != nil {
		return errors.Join(err, s.journal.log.Close())
	}
	return nil
}

// inspectLocked inspects the directory while no other process has it open, and
// makes it private: Badger creates its files with mode 0666.
func inspectLocked(dir string, logger *zap.Logger) error {
	release, err := system.LockDir(dir)
	if errors.Is(err, system.ErrLocked) {
		return ErrInUse
	} else if err != nil {
		return err
	}
	if len(system.NotKept) > 0 {
		logger.Warn("the store does not keep these promises on this system", zap.String("directory", dir), zap.Strings("not_kept", system.NotKept))
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		logger.Warn("other users may be able to read the store", zap.String("directory", dir), zap.Error(err))
	}
	return errors.Join(inspect(dir), release())
}

// memtable is the size of a memtable. It decides how much memory the store
// needs: a memtable and the builder that flushes it each take somewhat more of
// the heap, the garbage collector doubles that, and their files are mapped.
const memtable = 8 << 20

// tableSize is the size of a table. Its builder allocates twice as much at
// once. That is enough for a memtable; otherwise the builder allocates it again.
const tableSize = 18 << 18

// openBadger opens the database with settings for small rows that are
// overwritten often. It returns an error where Badger panics because of damage.
func openBadger(dir string, logger *zap.Logger) (db *badger.DB, err error) {
	defer func() {
		if r := recover(); r != nil {
			db, err = nil, damaged("%v", r)
		}
	}()
	db, err = openFitting(badger.DefaultOptions(dir).
		WithLogger(&badgerLogger{log: outage.Logger(logger)}).
		WithMemTableSize(memtable).
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
	if err != nil && strings.Contains(err.Error(), "Another process is using this Badger database") {
		return nil, ErrInUse
	}
	return db, err
}

// Grant implements store.Grants.
func (s *Store) Grant(_ context.Context, hash token.Hash, now time.Time) (store.Grant, error) {
	return s.ledger.Grant(&hash, now)
}

// Confirm implements store.Grants.
func (s *Store) Confirm(ctx context.Context, hash token.Hash, now time.Time) (store.Grant, error) {
	return s.Grant(ctx, hash, now)
}

// GrantAccount implements store.Grants.
func (s *Store) GrantAccount(_ context.Context, account string, _ bool) (store.Grant, error) {
	return s.ledger.GrantAccount(account)
}

// Take implements store.Counter.
func (s *Store) Take(_ context.Context, call store.Call, limits []store.Limit, rooms []store.Room) (admitted bool, err error) {
	if call.Receipt == nil {
		return s.ledger.Take(call, limits, rooms)
	}
	err = s.keep(&call, func() (bool, error) {
		admitted, err = s.ledger.Take(call, limits, rooms)
		return admitted, err
	})
	return admitted && err == nil, err
}

// Rooms implements store.Counter.
func (s *Store) Rooms(_ context.Context, call store.Call, limits []store.Limit, rooms []store.Room) error {
	return s.ledger.Rooms(call, limits, rooms)
}

// Settle implements store.Counter.
func (s *Store) Settle(_ context.Context, call store.Call, limits []store.Limit, rooms []store.Room, cost int64, refund bool) error {
	if call.Receipt == nil {
		return s.ledger.Settle(call, limits, rooms, cost, refund)
	}
	return s.keep(&call, func() (bool, error) { return true, s.ledger.Settle(call, limits, rooms, cost, refund) })
}

// sweep frees the memory of expired tokens and of old days.
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

// forget removes expired tokens and old days from memory. It keeps the days
// that are today in some time zone, one more on each side, and those of which
// the archive lacks counts. A removed day is read from the archive when it is
// needed again.
func (s *Store) forget(now time.Time) {
	s.ledger.RemoveExpired(now.Add(-clockAhead))
	today := calendar.UTCDay(now)
	s.ledger.RetainDays(func(d calendar.Day) bool {
		return d >= today-2 && d <= today+2 || d == store.TotalDay || s.journal.holds(d)
	})
}

// Check implements store.Health. It writes to the log as an admitted call does,
// and syncs it.
func (s *Store) Check(context.Context) error {
	return s.ledger.Use(func() error {
		if err := s.journal.check(); err != nil {
			return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
		}
		return nil
	})
}
