package policy

import (
	"cmp"
	"fmt"
	"net/http"
	"strings"

	"github.com/caddy-tollgate/tollgate/internal/route"
)

// ToolMethod is the method of MCP that calls a tool.
const ToolMethod = "tools/call"

// JSONRPC says which JSON-RPC requests to its routes, all POST, an endpoint takes.
// Several endpoints can have the same route, one of them without this option:
// without it, other requests get 404. A batch costs as much as its requests. They
// must have one endpoint, otherwise it gets 400, as a body that parsers can read
// differently. A body that is not plain application/json gets 415, and one of
// more than 1 MiB gets 413.
type JSONRPC struct {
	// Method is the method of the requests, such as "tools/call". Required.
	Method string `json:"method"`

	// Tool is the name of one tool of MCP, only with the method "tools/call".
	// Default: all tools that no other endpoint of the route takes.
	Tool string `json:"tool,omitempty"`
}

// String returns the method and the tool, as in a Caddyfile.
func (j *JSONRPC) String() string { return strings.TrimSuffix(j.Method+" "+j.Tool, " ") }

// Operations are the endpoints that share a route. The body of a request chooses
// one of them.
type Operations struct {
	// List has the endpoints with a JSONRPC, at least one.
	List []*Endpoint
	// others takes all other requests. Without it, anyMethod does: an endpoint of
	// the same path. They may be nil.
	others, anyMethod *Endpoint
}

// First returns the endpoint of a request whose body is not known.
func (o *Operations) First() *Endpoint { return cmp.Or(o.others, o.anyMethod, o.List[0]) }

// Choose returns the endpoint of a method and a tool of ToolMethod, the most
// specific one, or nil. A name that differs from one of List in case or in spaces
// around it has none: a service may ignore these.
func (o *Operations) Choose(method, tool string) *Endpoint {
	found, doubtful := cmp.Or(o.others, o.anyMethod), false
	for _, e := range o.List {
		switch of := e.JSONRPC; {
		case of.Method == method && of.Tool == tool:
			return e
		case of.Method == method && of.Tool == "":
			found = e
		case of.Method != method && similar(of.Method, method), of.Method == method && similar(of.Tool, tool):
			doubtful = true
		}
	}
	if doubtful {
		return nil
	}
	return found
}

func similar(a, b string) bool { return strings.EqualFold(strings.TrimSpace(a), strings.TrimSpace(b)) }

// checkJSONRPC checks the JSONRPC of an endpoint.
func checkJSONRPC(e EndpointConfig) error {
	switch of := e.JSONRPC; {
	case of == nil:
		return nil
	case of.Method == "":
		return fmt.Errorf("no method: write one, such as %s", ToolMethod)
	case of.Tool != "" && of.Method != ToolMethod:
		return fmt.Errorf("the tool %q requires the method %s, not %q", of.Tool, ToolMethod, of.Method)
	}
	for _, text := range e.Patterns {
		if newPattern(text).Method != http.MethodPost {
			return fmt.Errorf("it requires routes with the method POST, not %q", text)
		}
	}
	return nil
}

// addOperation adds a route of an endpoint, or adds the endpoint to those that share
// the route.
func (p *Policy) addOperation(subject string, pattern Pattern, e *Endpoint) error {
	if o := p.operations[http.MethodPost+" "+pattern.Path]; o != nil && pattern.Method == route.AnyMethod {
		o.anyMethod = e
	}
	o := p.operations[pattern.String()]
	if o == nil || e.JSONRPC == nil && o.others != nil { // the second of others is a conflict
		return p.addRoute(subject, pattern, Route{Endpoint: e})
	}
	if len(o.List) == 0 && o.others == nil {
		if err := p.addRoute(subject, pattern, Route{Operations: o}); err != nil {
			return err
		}
	}
	if e.JSONRPC == nil {
		o.others, p.subjects[pattern.String()] = e, subject
		return nil
	}
	for _, other := range o.List {
		if *other.JSONRPC == *e.JSONRPC {
			return &Error{Subject: subject, Other: "endpoint " + other.Name + " " + pattern.String(), Err: fmt.Errorf("the endpoint %s has the same route with jsonrpc %s", other.Name, e.JSONRPC)}
		}
	}
	o.List = append(o.List, e)
	return nil
}
