package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// connections is the number of requests in flight.
const connections = 64

// callPath is the path of all calls.
const callPath = "/api/convert/EUR/10/USD"

// load is the report of a load generator.
type load struct {
	Requests int64 `json:"requests"`
	Duration int64 `json:"duration"` // in microseconds
	P99      int64 `json:"p99"`      // in microseconds
	Refused  int64 `json:"refused"`  // answers with a status of 400 or more
	Broken   int64 `json:"broken"`   // without an answer
}

func (l load) rate() float64 { return float64(l.Requests) / (float64(l.Duration) / 1e6) }

// script returns a script for wrk. It sends the tokens in turn and prints
// its report as a line of JSON, because wrk itself prints rounded values. takes and
// ids are those of a side.
func script(tokens []string, takes, ids bool) string {
	quoted := make([]string, len(tokens))
	for i, t := range tokens {
		quoted[i] = strconv.Quote(t)
	}
	return `local tokens = { ` + strings.Join(quoted, ", ") + ` }
local takes, ids = ` + strconv.FormatBool(takes) + `, ` + strconv.FormatBool(ids) + `
local requests, last, number, begun = {}, 0, 0, os.time()

local function format(token, id)
	if takes then
		return wrk.format("POST", "/tollgate/take", { ["Content-Type"] = "application/json", ["Authorization"] = "Bearer ` + takeSecret + `" },
			string.format('{"token":"%s","endpoint":"convert"%s}', token, id))
	end
	return wrk.format("GET", "` + callPath + `", { ["Accept"] = "application/json", ["Authorization"] = "Bearer " .. token })
end

function init()
	for i, token in ipairs(tokens) do
		requests[i] = format(token, "")
	end
end

function request()
	last = last % #requests + 1
	if ids then
		number = number + 1
		return format(tokens[last], string.format(',"id":"%d-%d"', begun, number))
	end
	return requests[last]
end

function done(summary, latency)
	local e = summary.errors
	io.write(string.format('{"requests":%d,"duration":%d,"p99":%d,"refused":%d,"broken":%d}\n', summary.requests,
		summary.duration, latency:percentile(99), e.status, e.connect + e.read + e.write + e.timeout))
end
`
}

// calls makes calls for some time. Unexpected answers are an error, because
// they have another cost.
func (s *side) calls(ctx context.Context, duration time.Duration) (l load, err error) {
	if s.inGo {
		return callTogether(ctx, s.address, s.tokens, duration)
	}
	file, err := os.CreateTemp("", "bench-*.lua")
	if err != nil {
		return load{}, err
	}
	defer func() { err = errors.Join(err, os.Remove(file.Name())) }()
	if _, err := file.WriteString(script(s.tokens, s.takes || s.ids, s.ids)); err != nil {
		return load{}, errors.Join(err, file.Close())
	}
	if err := file.Close(); err != nil {
		return load{}, err
	}
	cmd := exec.CommandContext(ctx, "wrk", "-t1", "-c"+strconv.Itoa(connections), fmt.Sprintf("-d%ds", int(duration.Seconds())),
		"--timeout", "10s", "-s", file.Name(), "http://"+s.address)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.Output()
	if err != nil {
		return load{}, fmt.Errorf("running wrk: %w: %s", err, bytes.TrimSpace(stderr.Bytes()))
	}
	if l, err = parseLoad(string(stdout)); err != nil {
		return load{}, fmt.Errorf("reading the report of wrk: %w", err)
	}
	wanted := int64(0)
	if s.refused {
		wanted = l.Requests
	}
	if l.Requests == 0 || l.Broken > 0 || l.Refused != wanted {
		return load{}, fmt.Errorf("%d requests: %d refused (want %d), %d without an answer", l.Requests, l.Refused, wanted, l.Broken)
	}
	return l, nil
}

// parseLoad reads the report in the output of wrk.
func parseLoad(output string) (l load, err error) {
	_, line, _ := strings.Cut("\n"+output, "\n{")
	line, _, _ = strings.Cut(line, "\n")
	if err := json.Unmarshal([]byte("{"+line), &l); err != nil {
		return load{}, err
	}
	if l.Duration <= 0 {
		return load{}, errors.New("the duration is missing")
	}
	return l, nil
}

// callTogether loads an address as wrk does. Each caller has a connection of
// its own.
func callTogether(ctx context.Context, address string, tokens []string, duration time.Duration) (load, error) {
	var callers [connections]*caller
	for i := range callers {
		c, err := connect(ctx, address, tokens)
		if err != nil {
			return load{}, err
		}
		defer c.Close()
		c.last = i * len(tokens) / connections
		callers[i] = c
	}
	var took [connections]values
	var failures [connections]error
	var group sync.WaitGroup
	began := time.Now()
	for i, c := range callers {
		group.Go(func() {
			for failures[i] == nil && ctx.Err() == nil && time.Since(began) < duration {
				var one time.Duration
				one, failures[i] = c.call()
				took[i] = append(took[i], float64(one.Microseconds()))
			}
		})
	}
	group.Wait()
	all := slices.Concat(took[:]...)
	l := load{Requests: int64(len(all)), Duration: time.Since(began).Microseconds(), P99: int64(all.at(0.99))}
	return l, errors.Join(ctx.Err(), errors.Join(failures[:]...))
}
