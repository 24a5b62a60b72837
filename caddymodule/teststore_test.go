package caddymodule_test

import (
	"context"
	"iter"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-tollgate/tollgate/internal/pool"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/badgerstore"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
)

// testStore is a Badger store that a test holds up when it is opened or settles
// calls, and whose check, dump and events a test makes fail. As a module it is
// found by its name.
type testStore struct {
	dir     string
	opening func() error // called before the store is opened
	settle  func()       // if not nil, called before a call is settled
	broken  atomic.Pointer[error]
}

var testStores sync.Map // of *testStore, by the name of the test

func newTestStore(t *testing.T, opening func() error) *testStore {
	t.Helper()
	s := &testStore{dir: filepath.Join(t.TempDir(), "gate"), opening: opening}
	testStores.Store(t.Name(), s)
	return s
}

// use makes an app use the store.
func (s *testStore) use(t *testing.T, app object) object {
	app["store"] = object{"module": "test", "name": t.Name()}
	return app
}

func (s *testStore) fail(err error) { s.broken.Store(&err) }
func (s *testStore) mend()          { s.broken.Store(nil) }

// openTestStore is a testStore that was opened.
type openTestStore struct {
	*badgerstore.Store
	test *testStore
}

func (s openTestStore) Check(ctx context.Context) error {
	if err := s.test.broken.Load(); err != nil {
		return *err
	}
	return s.Store.Check(ctx)
}

func (s openTestStore) Dump(ctx context.Context, spaces []book.Space, write func(book.Piece) error) error {
	if err := s.test.broken.Load(); err != nil {
		return *err
	}
	return s.Store.Dump(ctx, spaces, write)
}

func (s openTestStore) Commit(ctx context.Context, batches ...book.Batch) []error {
	if err := s.test.broken.Load(); err != nil {
		return slices.Repeat([]error{*err}, len(batches))
	}
	return s.Store.Commit(ctx, batches...)
}

func (s openTestStore) Settle(ctx context.Context, call store.Call, limits []store.Limit, rooms []store.Room, cost int64, refund bool) error {
	if s.test.settle != nil {
		s.test.settle()
	}
	return s.Store.Settle(ctx, call, nil, nil, cost, false)
}

// testStoreModule is the module that finds a testStore.
type testStoreModule struct {
	Name string `json:"name"`
}

func init() {
	caddy.RegisterModule(testStoreModule{})
	caddy.RegisterModule(otherModule{})
}

// otherModule is a module in the namespace of stores that is no store.
type otherModule struct {
	Directory string `json:"directory"`
	Sync      bool   `json:"sync"`
}

func (otherModule) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "tollgate.stores.other", New: func() caddy.Module { return new(otherModule) }}
}

func (testStoreModule) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "tollgate.stores.test", New: func() caddy.Module { return new(testStoreModule) }}
}

func (m *testStoreModule) Key() string   { return "test:" + m.Name }
func (m *testStoreModule) Settings() any { return nil }

func (m *testStoreModule) Restore(_ context.Context, pieces iter.Seq2[book.Piece, error]) error {
	found, _ := testStores.Load(m.Name)
	return badgerstore.Restore(found.(*testStore).dir, badgerstore.Options{}, pieces)
}

func (m *testStoreModule) Open() (pool.Backend, error) {
	found, _ := testStores.Load(m.Name)
	test := found.(*testStore)
	if test.opening != nil {
		if err := test.opening(); err != nil {
			return pool.Backend{}, err
		}
	}
	opened, err := badgerstore.Open(test.dir, badgerstore.Options{})
	if err != nil {
		return pool.Backend{}, err
	}
	return pool.Backend{Engine: openTestStore{opened, test}, Close: opened.Close}, nil
}
