// Package replyscan checks the replies of a server before they are parsed.
package replyscan

import (
	"bytes"
	"errors"
	"strconv"
)

// ErrMalformed is the error for a reply that cannot be parsed or announces too much.
var ErrMalformed = errors.New("malformed reply")

// Scanner checks the replies on a connection before go-redis parses them. go-redis allocates memory for as many
// elements or bytes as a reply announces, and uses stack for each level of nesting. Running out of either ends the
// process. So a reply that announces more than limits allow is an error, even if little of it arrives.
//
// It also removes push messages, which a server may send before or after any reply. They are for whoever has the
// connection, while clients share those to nodes, and the reader takes all that arrives for replies.
type Scanner struct {
	Limits Limits

	head     [32]byte // the first bytes of the current line
	n        int      // bytes in head
	last     byte     // the last byte of the current line that has arrived
	skip     int64    // remaining bytes of the current string
	left     []int64  // remaining elements of each open array or map, outermost first
	complete bool     // at least one complete reply has arrived
	push     bool     // what is being read is a push message
}

// Limits bound one reply.
type Limits struct {
	bytes    int64 // the most bytes of a string
	elements int64 // the most elements of an array, or pairs of a map
	depth    int   // the most levels of nested arrays and maps; go-redis takes some 300 bytes of stack for each
}

// Parsed are for replies that are parsed into memory, such as those of rlproxy's functions and
// CLUSTER SLOTS. Passed are for replies that are only passed on. Any client's script can make a
// reply with 8,000 levels, and Lua ends it there.
var (
	Parsed = Limits{16 << 20, 1 << 17, 16}
	Passed = Limits{1 << 32, 1 << 32, 1 << 16}
)

// Feed checks the next bytes of the connection and removes push messages from them. It returns how
// many of the bytes are left: p[:kept]. The error is ErrMalformed if a reply is invalid or exceeds
// the limits; the bytes that are left are those before the reply's first wrong line.
func (s *Scanner) Feed(p []byte) (kept int, err error) {
	for at := 0; at < len(p); {
		if p[at] == '>' && s.n == 0 && s.skip == 0 && len(s.left) == 0 {
			s.push = true
		}
		removed := s.push
		n, err := s.part(p[at:])
		if err != nil {
			return kept, err
		}
		if !removed {
			if kept < at {
				copy(p[kept:], p[at:at+n])
			}
			kept += n
		}
		at += n
	}
	return kept, nil
}

// part checks what belongs together at the start of p: the rest of a string or of a line. It returns its size.
func (s *Scanner) part(p []byte) (int, error) {
	if s.skip > 0 {
		n := min(s.skip, int64(len(p)))
		if s.skip -= n; s.skip == 0 {
			s.done()
		}
		return int(n), nil
	}
	end := bytes.IndexByte(p, '\n')
	line := p
	if end >= 0 {
		line = p[:end]
	}
	if len(line) > 0 {
		s.n += copy(s.head[s.n:], line)
		s.last = line[len(line)-1]
	}
	if end < 0 {
		return len(p), nil
	}
	err := s.line()
	s.n, s.last = 0, 0
	return end + 1, err
}

// Whole reports whether b is one reply that has arrived completely.
func Whole(b []byte) bool {
	s := Scanner{Limits: Passed, complete: true}
	s.Limits.bytes = int64(len(b))
	kept, err := s.Feed(b)
	return kept > 0 && err == nil && s.n == 0 && s.skip == 0 && len(s.left) == 0 && b[0] != '|'
}

// line checks a complete line: a reply of one line, or the header of a longer one.
func (s *Scanner) line() error {
	line := bytes.TrimSuffix(s.head[:s.n], []byte{'\r'})
	if len(line) == 0 || s.last != '\r' {
		return ErrMalformed
	}
	limits := &s.Limits
	if !s.complete {
		limits = &Parsed // the greeting is always parsed
	}
	most := limits.elements
	switch line[0] {
	case '+', '-', ':', '_', ',', '#', '(':
		s.done()
		return nil
	case '$', '=', '!':
		most = limits.bytes
	case '*', '~', '>', '%', '|':
	default:
		return ErrMalformed
	}
	n, err := strconv.ParseInt(string(line[1:]), 10, 64)
	if err != nil || n < -1 || n > most || s.n == len(s.head) {
		return ErrMalformed
	}
	switch line[0] {
	case '$', '=', '!':
		if n < 0 {
			s.done()
			return nil
		}
		s.skip = n + 2
		return nil
	case '|': // an attribute precedes an element and does not count as one
		if len(s.left) > 0 {
			s.left[len(s.left)-1]++
		}
		n *= 2
	case '%':
		n *= 2
	}
	if n <= 0 {
		s.done()
		return nil
	}
	if s.left = append(s.left, n); len(s.left) > limits.depth {
		return ErrMalformed
	}
	return nil
}

// done records that an element is complete.
func (s *Scanner) done() {
	for top := len(s.left) - 1; top >= 0; top-- {
		if s.left[top]--; s.left[top] > 0 {
			return
		}
		s.left = s.left[:top]
	}
	s.complete, s.push = true, false
}
