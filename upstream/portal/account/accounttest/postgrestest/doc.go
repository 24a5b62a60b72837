// Package postgrestest starts a PostgreSQL server for tests.
package postgrestest
