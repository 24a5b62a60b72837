package caddymodule

import (
	"errors"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/logging"
	"go.uber.org/zap"
	"go.uber.org/zap/buffer"
	"go.uber.org/zap/zapcore"
	"golang.org/x/term"

	"github.com/caddy-tollgate/tollgate/internal/token"
)

func init() { caddy.RegisterModule((*LogEncoder)(nil)) }

// LogEncoder writes access logs of API calls as JSON without API keys, headers and
// queries. Its lines are those of Caddy's encoder "json" with the time as text,
// but of a request only what proves it: its client, protocol, method, host and
// path. It has no headers, neither of the request nor of the answer, no
// environment of FastCGI, no query, and no long method, host or path, which could
// fill the disk. A path ends with REDACTED where a token of a gate, or the link of
// a portal or of a reset begins, however it is encoded. A token has any word, "_",
// and 34 or more letters or digits; or it begins with tgk_ or tgl_.
//
//	format tollgate
//
// It has no options, and does not work in a filter.
type LogEncoder struct {
	recorder
	lines zapcore.Encoder
}

// CaddyModule returns the Caddy module information.
func (*LogEncoder) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "caddy.logging.encoders.tollgate", New: func() caddy.Module { return new(LogEncoder) }}
}

// UnmarshalCaddyfile implements caddyfile.Unmarshaler.
func (*LogEncoder) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next()
	if d.NextArg() || d.NextBlock(0) {
		return d.Err("the log format tollgate has no arguments and no block")
	}
	return nil
}

// Provision implements caddy.Provisioner.
func (e *LogEncoder) Provision(ctx caddy.Context) error {
	for _, parent := range ctx.Modules() {
		if _, filters := parent.(*logging.FilterEncoder); filters {
			return errors.New("the log format tollgate does not work in a filter, which hides requests from it: use it alone")
		}
	}
	config := zap.NewProductionEncoderConfig()
	config.EncodeTime = func(t time.Time, to zapcore.PrimitiveArrayEncoder) { zapcore.RFC3339NanoTimeEncoder(t.UTC(), to) }
	e.lines = zapcore.NewJSONEncoder(config)
	return nil
}

// ConfigureDefaultFormat implements caddy.ConfiguresFormatterDefault: a terminal
// gets the lines of Caddy's encoder "console", as it does by default.
func (e *LogEncoder) ConfigureDefaultFormat(to caddy.WriterOpener) error {
	if !caddy.IsWriterStandardStream(to) || !term.IsTerminal(int(os.Stderr.Fd())) {
		return nil
	}
	console := new(logging.ConsoleEncoder)
	e.lines = console
	return console.Provision(caddy.Context{})
}

// Clone implements zapcore.Encoder.
func (e *LogEncoder) Clone() zapcore.Encoder {
	return &LogEncoder{recorder{slices.Clip(e.fields)}, e.lines}
}

// fieldsPool has slices for the fields of an entry.
var fieldsPool = sync.Pool{New: func() any { return new([]zapcore.Field) }}

// EncodeEntry implements zapcore.Encoder. Other logs get the same fields: it must
// not change them.
func (e *LogEncoder) EncodeEntry(entry zapcore.Entry, fields []zapcore.Field) (*buffer.Buffer, error) {
	pooled := fieldsPool.Get().(*[]zapcore.Field)
	all := append(append((*pooled)[:0], e.fields...), fields...)
	ofGate := slices.ContainsFunc(all, func(f zapcore.Field) bool { return f.Key == gateFields })
	kept := all[:0]
	for _, field := range all {
		switch object := field.Interface.(type) {
		case caddyhttp.LoggableHTTPRequest:
			field.Interface = loggable{object.Request}
		case caddyhttp.LoggableHTTPHeader:
			continue
		}
		switch {
		case field.Key == "env", // of FastCGI: it has all headers
			field.Key == "uuid" && ofGate: // it is the request_id
			continue
		case strings.HasPrefix(field.String, "/"): // a path, as of a rewrite
			field.String = redact(field.String, maxLoggedPath)
		}
		kept = append(kept, field)
	}
	line, err := e.lines.EncodeEntry(entry, kept)
	clear(all)
	*pooled = all
	fieldsPool.Put(pooled)
	return line, err
}

// loggable is the request of a line.
type loggable struct{ *http.Request }

// Limits of what a line has of a request, in bytes.
const (
	maxLoggedMethod = 20
	maxLoggedHost   = 255
	maxLoggedPath   = 500
)

// MarshalLogObject implements zapcore.ObjectMarshaler, with Caddy's names.
func (r loggable) MarshalLogObject(to zapcore.ObjectEncoder) error {
	ip, port, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		ip = r.RemoteAddr
	}
	to.AddString("remote_ip", ip)
	to.AddString("remote_port", port)
	if client, found := caddyhttp.GetVar(r.Context(), caddyhttp.ClientIPVarKey).(string); found {
		to.AddString("client_ip", client)
	}
	to.AddString("proto", r.Proto)
	to.AddString("method", redact(r.Method, maxLoggedMethod))
	to.AddString("host", redact(r.Host, maxLoggedHost))
	to.AddString("uri", redact(r.RequestURI, maxLoggedPath))
	return nil
}

// redacted replaces the rest of a text from its first secret on.
const redacted = "REDACTED"

// redact returns the first bytes of a text, without a query and without secrets.
func redact(text string, limit int) string {
	text, _, _ = strings.Cut(text[:min(len(text), limit)], "?")
	if !strings.HasPrefix(text, "/") && strings.Contains(text, "@") {
		return redacted // a whole URL can have a password
	}
	if strings.Contains(text, "%") {
		decoded, from := unescape(text)
		if at := findSecret(decoded); at >= 0 {
			return text[:from[at]] + redacted
		}
	} else if at := findSecret(text); at >= 0 {
		return text[:at] + redacted
	}
	return text
}

// unescape decodes percent-encodings, also of what is encoded several times. from
// has the place of each byte in the text.
func unescape(text string) (decoded string, from []int) {
	var out []byte
	for i := range len(text) {
		out, from = append(out, text[i]), append(from, i)
		for n := len(out); n >= 3 && out[n-3] == '%'; n -= 2 {
			code, err := strconv.ParseUint(string(out[n-2:]), 16, 8)
			if err != nil {
				break
			}
			out, from = append(out[:n-3], byte(code)), from[:n-2]
		}
	}
	return string(out), from
}

// secrets are how the links of a reset and a portal begin.
var secrets = []string{"/reset/", "link="}

// findSecret returns where the first secret of a text begins, or -1.
func findSecret(text string) int {
	first := token.Find(text)
	if first >= 0 {
		text = text[:first]
	}
	for i := range len(text) {
		switch text[i] {
		case '/', 'l', 'L':
			for _, s := range secrets {
				if len(text)-i >= len(s) && strings.EqualFold(text[i:i+len(s)], s) {
					return i
				}
			}
		}
	}
	return first
}

// Interface guards.
var (
	_ zapcore.Encoder                  = (*LogEncoder)(nil)
	_ caddy.Provisioner                = (*LogEncoder)(nil)
	_ caddy.ConfiguresFormatterDefault = (*LogEncoder)(nil)
	_ caddyfile.Unmarshaler            = (*LogEncoder)(nil)
)
