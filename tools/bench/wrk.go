package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// connections is the usual number of requests in flight.
const connections = 64

// callPath is the path of all calls.
const callPath = "/api/convert/EUR/10/USD"

// load is the report of the load generator.
type load struct {
	Requests int64 `json:"requests"`
	Duration int64 `json:"duration"` // in microseconds
	P50      int64 `json:"p50"`      // in microseconds
	P99      int64 `json:"p99"`      // in microseconds
	Longest  int64 `json:"longest"`  // in microseconds
	Refused  int64 `json:"refused"`  // answers with a status of 400 or more
	Broken   int64 `json:"broken"`   // without an answer

	Latency [len(percentiles)]int64 `json:"latency"` // by wrk, in microseconds
}

// percentiles are those of load.Latency.
var percentiles = [...]float64{10, 25, 50, 75, 90, 95, 99, 99.9}

func (l load) rate() float64 { return float64(l.Requests) / (float64(l.Duration) / 1e6) }

// script returns a script for wrk. It sends the tokens in turn and prints
// its report as a line of JSON, because wrk itself prints rounded values.
func script(tokens []string) string {
	quoted := make([]string, len(tokens))
	for i, t := range tokens {
		quoted[i] = strconv.Quote(t)
	}
	return `local tokens = { ` + strings.Join(quoted, ", ") + ` }
local requests, last = {}, 0

function init()
	for i, token in ipairs(tokens) do
		requests[i] = wrk.format("GET", "` + callPath + `", { ["Accept"] = "application/json", ["Authorization"] = "Bearer " .. token })
	end
end

function request()
	last = last % #requests + 1
	return requests[last]
end

function done(summary, latency)
	local e, parts = summary.errors, {}
	for i, part in ipairs({ ` + strings.Trim(strings.ReplaceAll(fmt.Sprint(percentiles), " ", ","), "[]") + ` }) do
		parts[i] = latency:percentile(part)
	end
	io.write(string.format('{"requests":%d,"duration":%d,"p50":%d,"p99":%d,"refused":%d,"broken":%d,"latency":[%s]}\n', summary.requests,
		summary.duration, latency:percentile(50), latency:percentile(99), e.status, e.connect + e.read + e.write + e.timeout, table.concat(parts, ",")))
end
`
}

// generator loads a server with requests that have certain tokens. It is wrk
// with a script, or a client in Go.
type generator struct {
	script      string // a file; "" for the client in Go
	tokens      []string
	refused     bool // the expected answers: all are refusals, or none is
	connections int
}

func newGenerator(dir string, tokens []string, refused bool) (generator, error) {
	file, err := os.CreateTemp(dir, "*.lua")
	if err != nil {
		return generator{}, err
	}
	_, err = file.WriteString(script(tokens))
	return generator{file.Name(), tokens, refused, connections}, errors.Join(err, file.Close())
}

// run loads an address for some time. Unexpected answers are an error,
// because they have another cost.
func (g generator) run(ctx context.Context, address string, duration time.Duration) (load, error) {
	if g.script == "" {
		return callTogether(ctx, address, g.tokens, duration)
	}
	cmd := exec.CommandContext(ctx, wrk, "-t1", "-c"+strconv.Itoa(g.connections), fmt.Sprintf("-d%ds", int(duration.Seconds())),
		"--timeout", "10s", "-s", g.script, "http://"+address)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.Output()
	if err != nil {
		return load{}, fmt.Errorf("running wrk: %w: %s", err, bytes.TrimSpace(stderr.Bytes()))
	}
	l, err := parseLoad(string(stdout))
	if err != nil {
		return load{}, fmt.Errorf("reading the report of wrk: %w", err)
	}
	wanted := int64(0)
	if g.refused {
		wanted = l.Requests
	}
	if l.Requests == 0 || l.Broken > 0 || l.Refused != wanted {
		return load{}, fmt.Errorf("%d requests: %d refused (want %d), %d without an answer", l.Requests, l.Refused, wanted, l.Broken)
	}
	return l, nil
}

// parseLoad reads the report in the output of wrk.
func parseLoad(output string) (load, error) {
	for line := range strings.Lines(output) {
		if !strings.HasPrefix(line, "{") {
			continue
		}
		var l load
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			return load{}, err
		}
		if l.Duration <= 0 {
			return load{}, errors.New("the duration is missing")
		}
		return l, nil
	}
	return load{}, errors.New("the line of JSON is missing")
}
