package database_test

import (
	"os"
	"testing"

	"github.com/caddy-tollgate/tollgate/upstream/portal/account/accounttest/postgrestest"
)

func TestMain(m *testing.M) { os.Exit(postgrestest.Main(m)) }
