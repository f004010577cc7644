package commands

import (
	"bytes"
	"errors"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/resp"
)

// FuzzParse compares the parser with the slow one below. The input is a command's
// words with NULs between them, so that words may hold any other byte.
func FuzzParse(f *testing.F) {
	for _, line := range []string{
		"RL.SLIDE\x00k\x005\x0060",
		"rl.slide\x00k\x005\x001m\x003\x001h\x00COST\x002\x00ID\x00x\x00SHARDS\x0012\x00FAIL\x00OPEN",
		"RL.COUNTER\x00k\x005\x0060s\x00BUCKETS\x0010\x00STRICT",
		"RL.COUNTER\x00k\x005\x003ms\x00BUCKETS\x004\x00COST\x006",
		"RL.FIXED\x00k\x001000000000000\x00366d\x00cost\x000",
		"RL.SLIDE\x00k\x005\x0060\x005\x0060000ms\x00COST\x006",
		"RL.SLIDE\x00k\x005\x0060\x00COST\x001\x006\x0070",
		"RL.SLIDE\x00k" + strings.Repeat("\x009\x0060", 9),
		"RL.SLIDE\x00\x005",
		"RL.SLIDE\x00k\x00-0\x00+1",
	} {
		f.Add([]byte(line))
	}
	rows := newTable()
	f.Fuzz(func(t *testing.T, input []byte) {
		args := bytes.Split(input, []byte{0})
		r := rows.get(args[0])
		if r == nil || (r.name != "rl.slide" && r.name != "rl.counter" && r.name != "rl.fixed") {
			return
		}
		want, wantErr := slowParse(args)
		got, msg := engine.Request{}, r.wrong
		if r.fits(len(args)) {
			var p engine.Pipeline
			if msg = r.parse(args, &p); msg == "" {
				require.Len(t, p.Requests, 1)
				got = p.Requests[0]
			}
		}
		if wantErr != nil {
			require.Equal(t, wantErr.Error(), msg)
			return
		}
		require.Empty(t, msg)
		require.Equal(t, want, got)
	})
}

// FuzzServe sends any commands and checks that what comes back is whole RESP, so
// that nothing that a client says can end a reply early or begin another. The
// input has a command a line and NULs between words.
func FuzzServe(f *testing.F) {
	for _, text := range dialogues {
		var lines [][]byte
		for line := range strings.Lines(text) {
			if line = strings.TrimSpace(line); line != "" {
				lines = append(lines, bytes.Join(split(f, line), []byte{0}))
			}
		}
		f.Add(bytes.Join(lines, []byte{'\n'}))
	}
	f.Add([]byte("CL.THROTTLE\x00a\x00\r\r\x001\x001\nRL.INSPECT\x00a\nRL.SLIDE\x00away\x005\x0060"))
	f.Add([]byte("HELLO\x003\nMULTI\nRL.SLIDE\x00a\x005\x0060\nCOMMAND\x00DOCS\nEXEC"))
	f.Fuzz(func(t *testing.T, input []byte) {
		cfg := testConfig(newFakeEngine())
		cfg.MaxQueue = 3
		h := New(cfg)
		s := open(h, 1)
		for line := range bytes.SplitSeq(input, []byte{'\n'}) {
			s.Out = s.Out[:0]
			h.Serve(s, []resp.Command{bytes.Split(line, []byte{0})})
			for out := s.Out; len(out) > 0; {
				rest, ok := skipReply(out)
				require.True(t, ok, "%q answers %q", line, s.Out)
				out = rest
			}
			if s.Closing() {
				return
			}
		}
	})
}

// skipReply returns what follows the first reply in b.
func skipReply(b []byte) ([]byte, bool) {
	line, rest, ok := bytes.Cut(b, []byte("\r\n"))
	if !ok || len(line) == 0 || bytes.ContainsAny(line, "\r\n") {
		return nil, false
	}
	n := 0
	if strings.ContainsRune("$=*~>%:", rune(line[0])) {
		var err error
		if n, err = strconv.Atoi(string(line[1:])); err != nil {
			return nil, false
		}
	}
	switch line[0] {
	case '$', '=':
		if n < 0 {
			return rest, n == -1
		}
		if len(rest) < n+2 || string(rest[n:n+2]) != "\r\n" {
			return nil, false
		}
		return rest[n+2:], true
	case '%':
		n *= 2
		fallthrough
	case '*', '~', '>':
		for ; n > 0; n-- {
			var ok bool
			if rest, ok = skipReply(rest); !ok {
				return nil, false
			}
		}
		return rest, true
	case '+', '-', ':':
		return rest, true
	case '_':
		return rest, len(line) == 1
	}
	return nil, false
}

var (
	integerForm = regexp.MustCompile(`^(0|-?[1-9][0-9]*)$`)
	windowForm  = regexp.MustCompile(`^([1-9][0-9]*)(ms|s|m|h|d|)$`)
	unitMs      = map[string]int64{"ms": 1, "s": 1000, "": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
	policies    = map[string]engine.Policy{
		"OPEN": engine.PolicyOpen, "CLOSED": engine.PolicyClosed, "LOCAL": engine.PolicyLocal, "ERROR": engine.PolicyError,
	}
)

// slowParse is the contract's grammar as plainly as it can be said.
func slowParse(args [][]byte) (r engine.Request, err error) {
	name := strings.ToUpper(string(args[0]))
	if len(args) < 4 {
		return r, errors.New("ERR wrong number of arguments for '" + strings.ToLower(name) + "' command")
	}
	options := map[string]bool{"COST": true, "ID": true, "SHARDS": true, "FAIL": true}
	r.Op = map[string]engine.Op{"RL.SLIDE": engine.OpSlide, "RL.COUNTER": engine.OpCounter, "RL.FIXED": engine.OpFixed}[name]
	if r.Op == engine.OpCounter {
		options["BUCKETS"], options["STRICT"] = true, true
	}
	if len(args[1]) == 0 || len(args[1]) > 4096 {
		return r, errors.New(errKey)
	}
	r.Key, r.Cost, r.Buckets = args[1], 1, 1
	rest := args[2:]
	for len(rest) > 0 && integerForm.Match(rest[0]) {
		if r.N == 8 {
			return r, errors.New(errWindows)
		}
		limit, ok := between(rest[0], 1, 1_000_000_000_000)
		if !ok {
			return r, errors.New(errLimit)
		}
		if len(rest) == 1 || options[strings.ToUpper(string(rest[1]))] {
			return r, errors.New(errSyntax)
		}
		m := windowForm.FindSubmatch(rest[1])
		if m == nil {
			return r, errors.New(errWindow)
		}
		ms, _ := new(big.Int).SetString(string(m[1]), 10)
		ms.Mul(ms, big.NewInt(unitMs[string(m[2])]))
		if ms.Cmp(big.NewInt(366*86_400_000)) > 0 {
			return r, errors.New(errWindow)
		}
		r.Windows[r.N] = engine.Window{Limit: limit, Length: ms.Int64()}
		r.N++
		rest = rest[2:]
	}
	if r.N == 0 {
		return r, errors.New(errSyntax)
	}
	seen := map[string]bool{}
	for len(rest) > 0 {
		o := strings.ToUpper(string(rest[0]))
		if !options[o] || seen[o] {
			return r, errors.New(errSyntax)
		}
		seen[o] = true
		rest = rest[1:]
		if o == "STRICT" {
			r.Strict = true
			continue
		}
		if len(rest) == 0 {
			return r, errors.New(errSyntax)
		}
		var ok bool
		var n int64
		switch value := rest[0]; o {
		case "ID":
			r.ID = value
		case "FAIL":
			if r.Fail, ok = policies[strings.ToUpper(string(value))]; !ok {
				return r, errors.New(errSyntax)
			}
		case "COST":
			if r.Cost, ok = between(value, 0, 1_000_000_000_000); !ok {
				return r, errors.New(errCost)
			}
		case "SHARDS":
			if n, ok = between(value, 1, 1024); !ok {
				return r, errors.New(errShards)
			}
			r.Shards = int(n)
		case "BUCKETS":
			if r.Buckets, ok = between(value, 1, 1000); !ok {
				return r, errors.New(errBuckets)
			}
			for _, w := range r.Windows[:r.N] {
				if r.Buckets > w.Length {
					return r, errors.New(errFine)
				}
			}
		}
		rest = rest[1:]
	}
	lengths := map[int64]bool{}
	smallest := int64(1_000_000_000_000)
	for _, w := range r.Windows[:r.N] {
		lengths[w.Length] = true
		smallest = min(smallest, w.Limit)
	}
	if len(lengths) < r.N {
		return r, errors.New(errDuplicate)
	}
	if r.Cost > smallest {
		return r, errors.New(errTooCostly)
	}
	r.Shards = int(min(int64(r.Shards), smallest))
	return r, nil
}

// between reads an integer from lo to hi.
func between(word []byte, lo, hi int64) (int64, bool) {
	if !integerForm.Match(word) {
		return 0, false
	}
	n, _ := new(big.Int).SetString(string(word), 10)
	return n.Int64(), n.Cmp(big.NewInt(lo)) >= 0 && n.Cmp(big.NewInt(hi)) <= 0
}
