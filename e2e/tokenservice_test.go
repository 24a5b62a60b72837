package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"path"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// ending is how the service ends an answer.
type ending int

const (
	endsWhole      ending = iota
	endsSilent            // 200 without the cost
	endsBefore            // breaks off before it tells the cost
	endsAfter             // breaks off after it
	endsFailed            // 400 or 500 without the cost: the service has not worked
	endsFailedTold        // 500 with the cost
	endsUnanswered        // no answer: the service has not worked
	endsWhenClientLeaves
	endings
)

// modelCall is a call, what the service does with it, and what became of it.
type modelCall struct {
	account, endpoint, body string
	id                      int
	stream                  bool
	reserve, cost           int64
	ending                  ending
	wait                    time.Duration // before the answer
	leave                   int64         // bytes of the answer after which the client leaves, or -1

	gate            int
	served          bool
	begun           chan struct{} // closed once the service has the call
	ended, answered int           // positions in the order of all that happens, or 0
	status          int
	code            string
	counted         int64 // by the access log, or -1
}

// want is what the gate counts for a call whose client stays.
func (c *modelCall) want() int64 {
	switch c.ending {
	case endsFailed, endsUnanswered:
		return 0
	case endsSilent, endsBefore, endsWhenClientLeaves:
		return c.reserve
	}
	return c.cost
}

// may tells whether the gate may count this for a call.
func (c *modelCall) may(counted int64) bool {
	return counted == c.want() || c.leave >= 0 && counted == c.reserve
}

// isFinal tells whether a limit refused a call for good.
func (c *modelCall) isFinal() bool { return c.code == "quota_exceeded" || c.code == "quota_exhausted" }

func (c *modelCall) isRefused() bool { return c.isFinal() || c.code == "quota_reserved" }

// tokenService is a service that works as much as a language model can at most, or
// less, and its clients.
type tokenService struct {
	address string
	limit   int64 // of each budget
	client  *http.Client

	mu         sync.Mutex
	calls      []*modelCall
	spent      map[string]int64 // by account and endpoint: what the service has worked
	above      map[string]int64 // the most above the limit
	position   int
	inProgress int
	atOnce     int // the most in progress
}

func startTokenService(t *testing.T, limit int64) *tokenService {
	m := &tokenService{limit: limit, spent: map[string]int64{}, above: map[string]int64{}, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1000}}}
	server := httptest.NewServer(m)
	t.Cleanup(server.Close)
	t.Cleanup(m.client.CloseIdleConnections)
	m.address = server.Listener.Addr().String()
	return m
}

// modelBody returns the body of a request, and the most that it can cost: its
// bytes, n times max_tokens, 16 for the body and for its message, and 2048.
func modelBody(text, most, n int, stream bool) (body string, bound int64) {
	body = fmt.Sprintf(`{"model":"m","stream":%t,"n":%d,"max_tokens":%d,"messages":[{"role":"user","content":"%s"}]}`, stream, n, most, strings.Repeat("x", text))
	return body, int64(len(body) + n*most + 2*16 + 2048)
}

// add adds a call that costs all of its bound.
func (m *tokenService) add(account, endpoint, body string, bound int64) *modelCall {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := &modelCall{account: account, endpoint: endpoint, body: body, id: len(m.calls), reserve: bound, cost: bound, leave: -1, begun: make(chan struct{}), counted: -1}
	if endpoint == "fixed" {
		c.reserve = fixedReserve
	}
	m.calls = append(m.calls, c)
	return c
}

// random adds a random call. One of four costs all of its bound.
func (m *tokenService) random(account, endpoint string) *modelCall {
	stream, n := rand.IntN(2) == 0, 1
	if rand.IntN(8) == 0 {
		n = 3
	}
	body, bound := modelBody(rand.IntN(2000), 1+rand.IntN(1000), n, stream)
	c := m.add(account, endpoint, body, bound)
	c.stream = stream
	if rand.IntN(4) > 0 {
		c.cost = rand.Int64N(bound - 2048)
	}
	if rand.IntN(2) == 0 {
		c.ending = ending(rand.IntN(int(endings)))
	}
	switch {
	case c.ending == endsWhenClientLeaves && stream:
		c.leave = 1
	case c.ending == endsWhenClientLeaves:
		c.leave = 0
	case c.ending == endsWhole && rand.IntN(8) == 0:
		c.leave = rand.Int64N(200)
	}
	return c
}

// note notes when something first happened.
func (m *tokenService) note(at *int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.position++; *at == 0 {
		*at = m.position
	}
}

// do makes a call.
func (m *tokenService) do(g *gates, gate int, token string, c *modelCall) {
	ctx, leave := context.WithCancel(context.Background())
	defer leave()
	c.gate = gate
	request, err := http.NewRequestWithContext(ctx, "POST", fmt.Sprintf("%s/api/%s/%d", g.all[gate].Address, c.endpoint, c.id), strings.NewReader(c.body))
	if err != nil {
		panic(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Authorization", "Bearer "+token)
	if c.ending == endsWhenClientLeaves && !c.stream {
		go func() {
			select {
			case <-c.begun:
				m.note(&c.ended)
				leave()
			case <-ctx.Done():
			}
		}()
	}
	response, err := m.client.Do(request)
	if err != nil {
		return // the client has left, or the gate is killed or reloads
	}
	defer response.Body.Close()
	c.status = response.StatusCode
	if c.leave >= 0 && c.status == http.StatusOK {
		_, _ = io.CopyN(io.Discard, response.Body, c.leave) // the service may break off
		m.note(&c.ended)
		return
	}
	text, _ := io.ReadAll(response.Body)
	m.note(&c.answered)
	if refusal := (struct{ Code string }{}); json.Unmarshal(text, &refusal) == nil {
		c.code = refusal.Code
	}
}

// begin begins a call, for which the service then works.
func (m *tokenService) begin(id string) *modelCall {
	n, _ := strconv.Atoi(id)
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.calls[n]
	c.served = true
	close(c.begun) // a second request of the same call panics
	m.inProgress++
	m.atOnce = max(m.atOnce, m.inProgress)
	if c.ending != endsFailed && c.ending != endsUnanswered {
		budget := c.account + " " + c.endpoint
		m.spent[budget] += c.cost
		m.above[budget] = max(m.above[budget], m.spent[budget]-m.limit)
	}
	return c
}

// ServeHTTP answers a call.
func (m *tokenService) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body) // the client may be gone
	c := m.begin(path.Base(r.URL.Path))
	defer func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.inProgress--
	}()
	contentType, head, usage, tail := "application/json", `{"choices":[{"message":{"content":"Hello"}}]`, `,"usage":{"total_tokens":%d}`, "}"
	if c.stream {
		contentType, tail = "text/event-stream", "data: [DONE]\n\n"
		head, usage = strings.Repeat(`data: {"choices":[{"delta":{"content":"Hello"}}]}`+"\n\n", 3), `data: {"choices":[],"usage":{"total_tokens":%d}}`+"\n\n"
	}
	send := func(text string, at ending) {
		time.Sleep(rand.N(20 * time.Millisecond))
		_, _ = io.WriteString(w, text) // the client may be gone
		_ = http.NewResponseController(w).Flush()
		if c.ending == at {
			m.note(&c.ended)
			panic(http.ErrAbortHandler)
		}
	}
	time.Sleep(c.wait)
	w.Header().Set("Content-Type", contentType)
	switch c.ending {
	case endsUnanswered:
		m.note(&c.ended)
		panic(http.ErrAbortHandler)
	case endsWhenClientLeaves:
		if c.stream {
			send(head, endsBefore)
		}
		<-r.Context().Done()
		return
	case endsFailed:
		w.WriteHeader([]int{http.StatusBadRequest, http.StatusInternalServerError}[c.id%2])
	case endsFailedTold:
		w.WriteHeader(http.StatusInternalServerError)
	}
	send(head, endsBefore)
	if c.ending != endsSilent && c.ending != endsFailed {
		send(fmt.Sprintf(usage, c.cost), endsAfter)
	}
	m.note(&c.ended)
	_, _ = io.WriteString(w, tail) // the client may be gone
}
