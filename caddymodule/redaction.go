package caddymodule

import (
	"bytes"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/caddy-tollgate/tollgate/caddymodule/gate"
	"github.com/caddy-tollgate/tollgate/caddymodule/policy"
)

// requestLogs are the loggers whose entries have the headers of requests.
var requestLogs = []string{"http.log.access", "http.log.error"}

// warnOfTokensInLogs logs which logs show tokens of clients: the token header,
// and the subprotocols of WebSockets. Caddy redacts Authorization, but no
// header of the configuration.
func (a *App) warnOfTokensInLogs(ctx caddy.Context) {
	var headers []string
	if a.policy.TokenHeader != "" {
		headers = append(headers, a.policy.TokenHeader)
	}
	if slices.ContainsFunc(a.policy.Endpoints, func(e *policy.Endpoint) bool { return e.Upgrade }) {
		headers = append(headers, gate.ProtocolHeader)
	}
	logs := logsOf(ctx)
	for _, name := range slices.Sorted(maps.Keys(logs)) {
		log := logs[name]
		if !slices.ContainsFunc(requestLogs, func(logger string) bool { return includes(log, logger) }) {
			continue
		}
		for _, header := range headers {
			if showsHeader(log, header) {
				a.log.Warn("the log shows tokens: add the line \"request>headers>"+header+" delete\" to a block format filter of this log", zap.String("log", name))
			}
		}
	}
}

// logsOf returns the logs of the configuration that is being loaded. Caddy
// has no function for it, so this reads a private field. Without the field
// there is no warning.
func logsOf(ctx caddy.Context) map[string]*caddy.CustomLog {
	field := reflect.ValueOf(&ctx).Elem().FieldByName("cfg")
	if !field.IsValid() || field.Type() != reflect.TypeFor[*caddy.Config]() {
		return nil
	}
	config := *(**caddy.Config)(field.Addr().UnsafePointer())
	if config == nil || config.Logging == nil {
		return nil
	}
	return config.Logging.Logs
}

// includes tells whether a log gets entries of a logger or of one below it.
func includes(log *caddy.CustomLog, logger string) bool {
	covers := func(names []string, below bool) bool {
		return slices.ContainsFunc(names, func(name string) bool {
			return name == logger || strings.HasPrefix(logger, name+".") || below && strings.HasPrefix(name, logger+".")
		})
	}
	return (len(log.Include) == 0 || covers(log.Include, true)) && !covers(log.Exclude, false)
}

// showsHeader encodes an entry of a request as the log does, and looks for
// the value of the header in it.
func showsHeader(log *caddy.CustomLog, header string) bool {
	field := reflect.ValueOf(log).Elem().FieldByName("encoder")
	if !field.IsValid() || field.Type() != reflect.TypeFor[zapcore.Encoder]() || field.IsNil() {
		return false
	}
	encoder := *(*zapcore.Encoder)(field.Addr().UnsafePointer())
	const value = "value-of-the-token-header"
	r := &http.Request{Header: http.Header{header: {value}}}
	line, err := encoder.Clone().EncodeEntry(zapcore.Entry{}, []zapcore.Field{zap.Object("request", caddyhttp.LoggableHTTPRequest{Request: r})})
	if err != nil {
		return false
	}
	defer line.Free()
	return bytes.Contains(line.Bytes(), []byte(value))
}
