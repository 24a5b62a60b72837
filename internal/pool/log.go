package pool

import (
	"slices"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// ProcessLog returns a logger for what outlives a configuration, such as an
// open store: it logs to the default log of the configuration in force.
func ProcessLog(name string) *zap.Logger { return zap.New(processCore{}).Named(name) }

// processCore is the core of Caddy's default log, which each configuration
// replaces.
type processCore struct{ fields []zapcore.Field }

func (processCore) core() zapcore.Core {
	return caddy.Log().Core() // for each line: a reload can replace it
}

// Enabled implements zapcore.Core.
func (c processCore) Enabled(level zapcore.Level) bool { return c.core().Enabled(level) }

// With implements zapcore.Core.
func (c processCore) With(fields []zapcore.Field) zapcore.Core {
	return processCore{slices.Concat(c.fields, fields)}
}

// Check implements zapcore.Core.
func (c processCore) Check(entry zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	return c.core().With(c.fields).Check(entry, checked)
}

// Write implements zapcore.Core.
func (c processCore) Write(entry zapcore.Entry, fields []zapcore.Field) error {
	return c.core().With(c.fields).Write(entry, fields)
}

// Sync implements zapcore.Core.
func (c processCore) Sync() error { return c.core().Sync() }

// Interface guards.
var _ zapcore.Core = processCore{}
