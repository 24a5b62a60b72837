package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// connections is how many requests are under way at a time.
const connections = 64

// target is the call that all load consists of.
const target = "/api/convert/EUR/10/USD"

// load is what the generator saw.
type load struct {
	Requests int64 `json:"requests"`
	Duration int64 `json:"duration"` // in microseconds
	P99      int64 `json:"p99"`      // in microseconds
	Refused  int64 `json:"refused"`  // answers with a status of 400 or more
	Broken   int64 `json:"broken"`   // no answer
}

func (l load) rate() float64 { return float64(l.Requests) / (float64(l.Duration) / 1e6) }

// script makes the generator's script: it asks with one token after the
// other, and prints what it saw as a line of JSON, exact and easier to
// read than what wrk prints for people.
func script(tokens []string) string {
	quoted := make([]string, len(tokens))
	for i, t := range tokens {
		quoted[i] = strconv.Quote(t)
	}
	return `local tokens = { ` + strings.Join(quoted, ", ") + ` }
local requests, last = {}, 0

function init()
	for i, token in ipairs(tokens) do
		requests[i] = wrk.format("GET", "` + target + `", { ["Accept"] = "application/json", ["Authorization"] = "Bearer " .. token })
	end
end

function request()
	last = last % #requests + 1
	return requests[last]
end

function done(summary, latency)
	local e = summary.errors
	io.write(string.format('{"requests":%d,"duration":%d,"p99":%d,"refused":%d,"broken":%d}\n', summary.requests,
		summary.duration, latency:percentile(99), e.status, e.connect + e.read + e.write + e.timeout))
end
`
}

// generator loads a server with requests that bear certain tokens.
type generator struct {
	script  string // a file
	refused bool   // every request is to be refused, or none
}

func newGenerator(dir, name string, tokens []string, refused bool) (generator, error) {
	path := filepath.Join(dir, name+".lua")
	return generator{path, refused}, os.WriteFile(path, []byte(script(tokens)), 0o600)
}

// run loads an address for some time. It fails if the answers were not
// those that were expected: then something else was measured.
func (g generator) run(ctx context.Context, address string, length time.Duration) (load, error) {
	cmd := exec.CommandContext(ctx, "wrk", "-t1", "-c"+strconv.Itoa(connections), fmt.Sprintf("-d%ds", int(length.Seconds())),
		"--timeout", "10s", "-s", g.script, "http://"+address)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.Output()
	if err != nil {
		return load{}, fmt.Errorf("running wrk: %w: %s", err, bytes.TrimSpace(stderr.Bytes()))
	}
	l, err := parseLoad(string(stdout))
	if err != nil {
		return load{}, fmt.Errorf("reading what wrk printed: %w", err)
	}
	wanted := int64(0)
	if g.refused {
		wanted = l.Requests
	}
	if l.Requests == 0 || l.Broken > 0 || l.Refused != wanted {
		return load{}, fmt.Errorf("of %d requests %d were refused and %d broke", l.Requests, l.Refused, l.Broken)
	}
	return l, nil
}

// parseLoad finds the script's line in the generator's output.
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
			return load{}, errors.New("it took no time")
		}
		return l, nil
	}
	return load{}, errors.New("no line of JSON")
}
