package badgerstore

import (
	"math"
	"os"
	"strconv"
	"time"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"
)

// openFitting opens a database with options that fit the size of an int.
//
// Badger builds a table in memory of twice BaseTableSize, rounded up to a power of
// two. When that is full, and an int has 32 bits, the allocator of ristretto shifts
// away the number of the next buffer, begins at the start again and damages the
// table. So on such a system no table may need more than the first 32 MiB. A table
// needs up to 3.5 times its bytes, if all values are a little larger than two
// blocks. From a memtable it has up to 1.15 times its size, and from other tables
// up to 95 % of BaseTableSize and one row. If it needs more because a long
// transaction keeps old versions, Badger sees that when it verifies the new table,
// keeps what the table was made from, and tries again.
//
// Four or more tables of level 0 that are ten seconds old can become one of any
// size. So there are three at most, and those of the last run get a date in the
// future: a process that stops adds one more.
func openFitting(o badger.Options) (*badger.DB, error) {
	if strconv.IntSize > 32 {
		return badger.Open(o)
	}
	tables, err := list(o.Dir, ".sst")
	for _, path := range tables {
		if err == nil {
			err = os.Chtimes(path, time.Time{}, future)
		}
	}
	if err != nil {
		return nil, err
	}
	o.TableSizeMultiplier = 1
	return badger.Open(o.WithMemTableSize(7 << 20).WithBaseTableSize(8<<20 + 1).
		WithNumLevelZeroTables(2).WithNumLevelZeroTablesStall(3).
		WithChecksumVerificationMode(options.OnTableAndBlockRead))
}

// future is the latest time that such a system can give a file.
var future = time.Unix(math.MaxInt32, 0)
