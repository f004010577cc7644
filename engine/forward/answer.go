package forward

import (
	"bytes"
	"strconv"

	"github.com/rlproxy/rlproxy/engine/backend"
)

// answer collects a node's reply to a command of the forwarder's own, in bounded memory.
type answer []byte

// maxAnswer bounds an answer, in bytes. It is larger than the reply to COMMAND of any server.
const maxAnswer = 16 << 20

// Write implements io.Writer.
func (a *answer) Write(p []byte) (int, error) {
	if len(*a)+len(p) > maxAnswer {
		return 0, backend.ErrMalformed
	}
	*a = append(*a, p...)
	return len(p), nil
}

// parseArray parses an answer that is an array in RESP2. If the answer is an error, parseArray returns it as an error
// for which backend.IsReply returns true.
func parseArray(raw []byte) ([]any, error) {
	if len(raw) > 0 && raw[0] == '-' {
		return nil, backend.Reply(bytes.TrimRight(raw[1:], "\r\n"))
	}
	v, rest, ok := parseElement(raw, maxLevels)
	if list, isArray := v.([]any); ok && isArray && len(rest) == 0 {
		return list, nil
	}
	return nil, backend.ErrMalformed
}

// maxLevels bounds the nesting of arrays.
const maxLevels = 32

// parseElement parses a string, an integer, a null or an array of these, and returns the rest of b.
func parseElement(b []byte, levels int) (v any, rest []byte, ok bool) {
	line, rest, found := bytes.Cut(b, []byte("\r\n"))
	if !found || len(line) == 0 || levels == 0 {
		return nil, nil, false
	}
	kind, text := line[0], string(line[1:])
	if kind == '+' {
		return text, rest, true
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return nil, nil, false
	}
	switch {
	case kind == ':':
		return n, rest, true
	case kind == '$' && n < 0, kind == '*' && n < 0:
		return nil, rest, true
	case n > int64(len(rest)): // an element has at least a byte
	case kind == '$' && bytes.HasPrefix(rest[n:], []byte("\r\n")):
		return string(rest[:n]), rest[n+2:], true
	case kind == '*':
		list := make([]any, n)
		for i := range list {
			if list[i], rest, ok = parseElement(rest, levels-1); !ok {
				return nil, nil, false
			}
		}
		return list, rest, true
	}
	return nil, nil, false
}
