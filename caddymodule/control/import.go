package control

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
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/caddy-tollgate/tollgate/caddymodule/apierror"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
)

const importPath = "/tollgate/accounts"

// importPause is how long a client may take for the next lines. It replaces
// the timeouts of the listener, which are for short bodies.
const importPause = 30 * time.Second

var (
	errNotLines       = apierror.New(http.StatusUnsupportedMediaType, "unsupported_media_type", "The body must be application/jsonl or application/x-ndjson in UTF-8.")
	errLinesExcluded  = apierror.New(http.StatusNotAcceptable, "not_acceptable", "The Accept header excludes application/jsonl, the media type of the answer.")
	errLineTooLong    = apierror.New(http.StatusRequestEntityTooLarge, "body_too_large", fmt.Sprintf("The line is longer than %d bytes.", maxBody))
	errTooManyLines   = apierror.New(http.StatusRequestEntityTooLarge, "too_many_lines", fmt.Sprintf("The body has more than %d lines. This line and those after it are not read.", api.MaxImport))
	importDescription = fmt.Sprintf("Each line of the body is one account, as in put-account, at most %d lines. ", api.MaxImport) +
		"Lines are applied in their order, and a refused line does not stop the others. The answer has one line for each of them, in the same order. " +
		"It begins after the last line was read."
)

// serveImport adds the import of accounts. huma reads a body as a whole, so
// it describes this operation, but does not serve it.
func (s *server) serveImport(mux *http.ServeMux, router huma.API) {
	schemas := router.OpenAPI().Components.Schemas
	lines := func(of reflect.Type, mediaTypes ...string) map[string]*huma.MediaType {
		content := map[string]*huma.MediaType{}
		for _, mediaType := range mediaTypes {
			content[mediaType] = &huma.MediaType{Schema: schemas.Schema(of, true, "")}
		}
		return content
	}
	operation := &huma.Operation{
		OperationID: "import-accounts", Method: http.MethodPost, Path: importPath, Tags: []string{"accounts"},
		Summary: "Create or change many accounts", Description: importDescription,
		RequestBody: &huma.RequestBody{Required: true, Description: "One AccountLine in each line.", Content: lines(reflect.TypeFor[api.AccountLine](), api.LinesType, api.OtherLinesType)},
		Responses: map[string]*huma.Response{"200": {
			Description: "One AccountResult in each line.", Content: lines(reflect.TypeFor[api.AccountResult](), api.LinesType),
		}},
	}
	for _, status := range []int{http.StatusBadRequest, http.StatusUnauthorized, http.StatusUnsupportedMediaType, http.StatusServiceUnavailable} {
		operation.Responses[strconv.Itoa(status)] = &huma.Response{Description: http.StatusText(status), Content: refusalContent()}
	}
	router.OpenAPI().AddOperation(operation)
	mux.HandleFunc("POST "+importPath, s.importAccounts)
}

// checkImport refuses a request whose body is not read.
func checkImport(r *http.Request) *apierror.Error {
	for name := range r.URL.Query() {
		return unknownParameter(name, nil)
	}
	switch {
	case r.URL.RawQuery != "":
		return invalidRequest("The query is malformed.")
	case !apierror.Accepts(r.Header, api.LinesType):
		return errLinesExcluded
	case !apierror.IsText(r.Header, api.LinesType, api.OtherLinesType):
		return errNotLines
	}
	return nil
}

// importAccounts answers when the last line is applied, not while it reads:
// many clients send the whole body before they read, and would never end.
func (s *server) importAccounts(w http.ResponseWriter, r *http.Request) {
	var opened *session
	refused := checkImport(r)
	if refused == nil {
		var err error
		if opened, err = s.open(); err != nil {
			refused = s.refusal(r.Context(), err)
		}
	}
	if refused != nil {
		apierror.CloseUnread(w, r)
		// The client is gone if this fails; ignore the error.
		_ = refused.Write(w)
		return
	}
	i := &imported{server: s, session: opened, connection: http.NewResponseController(w), pending: make(map[string]bool, store.MaxBatch)}
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
type imported struct {
	*server
	*session
	connection *http.ResponseController
	line       int                 // the last one that was read
	results    []api.AccountResult // of the lines that are not in answer
	changes    []lineChange
	pending    map[string]bool // the accounts of changes
	down       *apierror.Error // why no more changes are made
	answer     bytes.Buffer
}

// lineChange is a change that is not yet made.
type lineChange struct {
	account string
	change  api.AccountChange
	result  int // its position in results
}

// read reads and applies lines until the body ends, or until it has too many
// lines or cannot be read.
func (i *imported) read(ctx context.Context, body io.Reader) (complete bool) {
	lines := bufio.NewReaderSize(body, maxBody+1)
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
			refused = unreadable(err)
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
func (i *imported) waitUntil(end time.Time) { _ = i.connection.SetReadDeadline(end) }

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
func (i *imported) add(ctx context.Context, text []byte, refused *apierror.Error) {
	var line api.AccountLine
	if refused == nil {
		refused = i.decodeLine(text, &line)
	}
	if refused == nil && i.pending[line.Account] {
		i.flush(ctx)
	}
	result := api.AccountResult{Line: i.line, Account: shorten(line.Account)}
	if refused != nil {
		refuseLine(&result, refused)
	} else {
		i.pending[line.Account] = true
		i.changes = append(i.changes, lineChange{line.Account, line.AccountChange, len(i.results)})
	}
	i.results = append(i.results, result)
}

// decodeLine reads and checks a line.
func (i *imported) decodeLine(text []byte, line *api.AccountLine) *apierror.Error {
	if err := decode("the line", text, line); err != nil {
		*line = api.AccountLine{}
		return invalidRequest("The line is not valid: " + err.Error() + ".")
	}
	if !api.ValidAccount(line.Account) {
		return api.ErrInvalidAccount
	}
	var refused *apierror.Error
	if err := i.checkChange(line.AccountChange); errors.As(err, &refused) {
		return refused
	}
	return i.down
}

func refuseLine(result *api.AccountResult, refused *apierror.Error) {
	result.Status, result.Message, result.Code = refused.Status, refused.Message, refused.Code
}

// flush makes the changes and moves the results to the answer.
func (i *imported) flush(ctx context.Context) {
	if len(i.changes) > 0 {
		i.makeChanges(ctx)
	}
	encoder := json.NewEncoder(&i.answer)
	encoder.SetEscapeHTML(false)
	for _, result := range i.results {
		if err := encoder.Encode(result); err != nil {
			panic("control: encoding a result: " + err.Error()) // numbers and strings always encode
		}
	}
	i.results, i.changes = i.results[:0], i.changes[:0]
	clear(i.pending)
	i.waitUntil(time.Now().Add(importPause))
}

// makeChanges makes the changes in one batch. If the store fails, the lines after them are refused: each could wait for
// a timeout.
func (i *imported) makeChanges(ctx context.Context) {
	ids, exist := make([]string, len(i.changes)), make([]bool, len(i.changes))
	for n, c := range i.changes {
		ids[n] = c.account
	}
	_, errs := i.changeAccounts(ctx, ids, func(n int, account *store.Account, exists bool) (change, error) {
		exist[n] = exists
		before := i.apply(i.changes[n].change, account, exists)
		return accountChange(before, *account), nil
	})
	for n, err := range errs {
		if err != nil {
			i.down = i.refusal(ctx, err)
			refuseLine(&i.results[i.changes[n].result], i.down)
			continue
		}
		status := http.StatusCreated
		if exist[n] {
			status = http.StatusOK
		}
		i.results[i.changes[n].result].Status = status
		i.calls.Worked()
	}
}
