// Package enrol imports many accounts, and keys whose tokens another system made.
package enrol

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/internal/admin"
	"github.com/caddy-tollgate/tollgate/internal/apierror"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
)

// importPause is how long a client may take for the next lines. It replaces
// the timeouts of the listener, which are for short bodies.
const importPause = 30 * time.Second

var (
	errNotLines      = apierror.New(http.StatusUnsupportedMediaType, "unsupported_media_type", "The body must be application/jsonl or application/x-ndjson in UTF-8.")
	errLinesExcluded = apierror.New(http.StatusNotAcceptable, "not_acceptable", "The Accept header excludes application/jsonl, the media type of the answer.")
	errLineTooLong   = apierror.New(http.StatusRequestEntityTooLarge, "body_too_large", fmt.Sprintf("The line is longer than %d bytes.", admin.MaxBody))
	errTooManyLines  = apierror.New(http.StatusRequestEntityTooLarge, "too_many_lines", fmt.Sprintf("The body has more than %d lines. This line and those after it are not read.", api.MaxImport))
)

// Serve adds the imports.
func Serve(s *admin.Server) {
	serveImport(s, accountImport)
	serveImport(s, keyImport)
}

// importKind is what the imports of accounts and of keys do in their own way.
// L is a line.
type importKind[L any] struct {
	row api.Operation[L, api.LineResult]
	// parameters are those of the query.
	parameters []*huma.Param
	// check checks a line that is decoded.
	check func(*admin.Session, L) error
	// account returns the account of a line.
	account func(L) string
	// subject returns a text that differs between the lines of a batch: a
	// line with the same one needs the result of the line before.
	subject func(L) string
	// refuse refuses the whole import. It can be nil.
	refuse func(*admin.Session) *apierror.Error
	// apply applies a batch and sets the results of its lines. A dry run changes
	// nothing.
	apply func(context.Context, *imported[L])
}

// serveImport adds an import. huma reads a body as a whole, so it describes
// the operation, but does not serve it.
func serveImport[L any](s *admin.Server, kind importKind[L]) {
	admin.Describe(s, kind.row, admin.Described{
		In: []string{api.LinesType, api.OtherLinesType}, InText: fmt.Sprintf("One %s in each line.", reflect.TypeFor[L]().Name()),
		Out: []string{api.LinesType}, OutText: "One LineResult in each line.", Parameters: kind.parameters,
		Errors: []int{http.StatusBadRequest, http.StatusUnauthorized, http.StatusUnsupportedMediaType, http.StatusServiceUnavailable},
		Serve:  func(w http.ResponseWriter, r *http.Request) { importLines(s, kind, w, r) },
	})
}

// checkImport refuses a request whose body is not read. The only parameter that
// an import can have is dry_run.
func checkImport(r *http.Request, parameters []*huma.Param) (dryRun bool, refused *apierror.Error) {
	if refused := admin.CheckQuery(r.URL.RawQuery); refused != nil {
		return false, refused
	}
	var known []string
	for _, p := range parameters {
		known = append(known, p.Name)
	}
	for name, values := range r.URL.Query() {
		switch {
		case !slices.Contains(known, name):
			return false, admin.UnknownParameter(name, known)
		case values[0] != "true" && values[0] != "false":
			return false, admin.InvalidRequest(fmt.Sprintf("The parameter %s is neither true nor false.", name))
		}
		dryRun = values[0] == "true"
	}
	switch {
	case !apierror.Accepts(r.Header, api.LinesType):
		return false, errLinesExcluded
	case !apierror.IsText(r.Header, api.LinesType, api.OtherLinesType):
		return false, errNotLines
	}
	return dryRun, nil
}

// importLines answers when the last line is applied, not while it reads: many
// clients send the whole body before they read, and would never end.
func importLines[L any](s *admin.Server, kind importKind[L], w http.ResponseWriter, r *http.Request) {
	i := &imported[L]{Server: s, kind: kind, connection: http.NewResponseController(w), pending: make(map[string]bool, store.MaxBatch), planned: map[string]string{}}
	if refused := i.start(r); refused != nil {
		admin.Send(w, r, refused)
		return
	}
	if complete := i.read(r.Context(), r.Body); !complete {
		apierror.CloseUnread(w, r)
	}
	h := w.Header()
	h.Set("Content-Type", api.LinesType)
	h.Set("Content-Length", strconv.Itoa(i.answer.Len()))
	h.Set("X-Content-Type-Options", "nosniff")
	// The client is gone if this fails; ignore the error.
	_, _ = i.answer.WriteTo(w)
}

// imported is the state of an import.
type imported[L any] struct {
	*admin.Server
	*admin.Session
	kind       importKind[L]
	dryRun     bool
	planned    map[string]string // the accounts of the subjects that a dry run would have made
	drafts     map[string]*draft // of keys, by account
	connection *http.ResponseController
	line       int              // the last one that was read
	results    []api.LineResult // of the lines that are not in answer
	batch      []batchLine[L]
	pending    map[string]bool // the subjects of batch
	down       *apierror.Error // why no more lines are applied
	answer     bytes.Buffer
}

// batchLine is a line that is not yet applied.
type batchLine[L any] struct {
	line   L
	result int // its position in results
}

// start checks the request and opens the store.
func (i *imported[L]) start(r *http.Request) *apierror.Error {
	var refused *apierror.Error
	var err error
	if i.dryRun, refused = checkImport(r, i.kind.parameters); refused != nil {
		return refused
	}
	if i.Session, err = i.Open(); err != nil {
		return i.Refusal(r.Context(), err)
	}
	if i.kind.refuse != nil {
		return i.kind.refuse(i.Session)
	}
	return nil
}

// read reads and applies lines until the body ends, or until it has too many
// lines or cannot be read.
func (i *imported[L]) read(ctx context.Context, body io.Reader) (complete bool) {
	lines := bufio.NewReaderSize(body, admin.MaxBody+1)
	i.waitUntil(time.Now().Add(importPause))
	defer i.waitUntil(time.Time{})
	for {
		text, refused, err := nextLine(lines)
		complete = errors.Is(err, io.EOF)
		if complete && len(text) == 0 && refused == nil {
			break
		}
		i.line++
		switch {
		case err != nil && !complete:
			refused = admin.Unreadable(err)
		case i.line > api.MaxImport:
			refused, err, complete = errTooManyLines, errTooManyLines, false
		}
		i.add(ctx, text, refused)
		if len(i.results) == store.MaxBatch {
			i.flush(ctx)
		}
		if err != nil {
			break
		}
	}
	i.flush(ctx)
	return complete
}

// waitUntil sets how long the connection waits for the body, zero for no limit.
// In the same process there is no connection and no timeout.
func (i *imported[L]) waitUntil(end time.Time) { _ = i.connection.SetReadDeadline(end) }

// nextLine returns the next line. It skips one that is too long.
func nextLine(lines *bufio.Reader) (text []byte, refused *apierror.Error, err error) {
	text, err = lines.ReadSlice('\n')
	for errors.Is(err, bufio.ErrBufferFull) {
		text, refused = nil, errLineTooLong
		_, err = lines.ReadSlice('\n')
	}
	return text, refused, err
}

// add decodes a line, unless it is refused already, and adds its result.
func (i *imported[L]) add(ctx context.Context, text []byte, refused *apierror.Error) {
	var line L
	if refused == nil {
		refused = i.decodeLine(text, &line)
	}
	subject := i.kind.subject(line)
	if refused == nil && i.pending[subject] {
		i.flush(ctx)
		refused = i.down
	}
	result := api.LineResult{Line: i.line, Account: admin.Shorten(i.kind.account(line))}
	if refused != nil {
		refuseLine(&result, refused)
	} else {
		i.pending[subject] = true
		i.batch = append(i.batch, batchLine[L]{line, len(i.results)})
	}
	i.results = append(i.results, result)
}

// decodeLine reads and checks a line.
func (i *imported[L]) decodeLine(text []byte, line *L) *apierror.Error {
	if err := apierror.Decode("the line", text, line); err != nil {
		var zero L
		*line = zero
		return admin.InvalidRequest("The line is not valid: " + err.Error() + ".")
	}
	if !api.ValidAccount(i.kind.account(*line)) {
		return api.ErrInvalidAccount
	}
	var refused *apierror.Error
	if err := i.kind.check(i.Session, *line); errors.As(err, &refused) {
		return refused
	}
	return i.down
}

func refuseLine(result *api.LineResult, refused *apierror.Error) {
	result.Status, result.Message, result.Code = refused.Status, refused.Message, refused.Code
}

// flush applies the batch and moves the results to the answer.
func (i *imported[L]) flush(ctx context.Context) {
	if len(i.batch) > 0 {
		i.kind.apply(ctx, i)
	}
	encoder := json.NewEncoder(&i.answer)
	encoder.SetEscapeHTML(false)
	for _, result := range i.results {
		if err := encoder.Encode(result); err != nil {
			panic("enrol: encoding a result: " + err.Error()) // numbers and strings always encode
		}
	}
	i.results, i.batch = i.results[:0], i.batch[:0]
	clear(i.pending)
	i.waitUntil(time.Now().Add(importPause))
}

// finish sets the result of a line of the batch: a status, or the refusal of a
// line that was not applied. If the store fails, the lines after it are refused
// too: each could wait for a timeout.
func (i *imported[L]) finish(ctx context.Context, n, status int, err error) {
	result := &i.results[i.batch[n].result]
	if err == nil {
		_ = i.Refuse(ctx, nil) // it worked
		result.Status = status
		return
	}
	refused := i.Refusal(ctx, err)
	if refused.Status == http.StatusServiceUnavailable {
		i.down = refused
	}
	refuseLine(result, refused)
}

// accountImport is the import of accounts.
var accountImport = importKind[api.AccountLine]{
	row:     api.ImportAccounts,
	check:   func(with *admin.Session, line api.AccountLine) error { return with.CheckChange(line.AccountChange) },
	account: func(line api.AccountLine) string { return line.Account },
	subject: func(line api.AccountLine) string { return line.Account },
	apply:   importAccounts,
}

// importAccounts applies a batch at once.
func importAccounts(ctx context.Context, i *imported[api.AccountLine]) {
	ids, status := make([]string, len(i.batch)), make([]int, len(i.batch))
	for n, c := range i.batch {
		ids[n] = c.line.Account
	}
	for _, c := range i.batch {
		if err := i.NotePlanEnd(ctx, c.line.Account, c.line.AccountChange); err != nil {
			for n := range i.batch {
				i.finish(ctx, n, 0, err)
			}
			return
		}
	}
	errs := i.ChangeAll(ctx, ids, func(n int, a *book.Account) error {
		status[n] = http.StatusOK
		if !a.Exists {
			status[n] = http.StatusCreated
		}
		i.SetAccount(ctx, a, i.batch[n].line.AccountChange)
		return nil
	})
	for n, err := range errs {
		i.finish(ctx, n, status[n], err)
	}
}
