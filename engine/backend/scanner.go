package backend

import (
	"bytes"
	"strconv"
)

// scanner checks the replies on a connection before go-redis parses them. go-redis
// allocates memory for as many elements or bytes as a reply announces, and uses stack for
// each level of nesting. Running out of either ends the process. So a reply that announces
// more than limits allow is an error, even if little of it arrives.
type scanner struct {
	limits scanLimits

	head     [32]byte // the first bytes of the current line
	n        int      // bytes in head
	skip     int64    // remaining bytes of the current string
	left     []int64  // remaining elements of each open array or map, outermost first
	complete bool     // at least one complete reply has arrived
}

// scanLimits bound one reply.
type scanLimits struct {
	bytes    int64 // the most bytes of a string
	elements int64 // the most elements of an array, or pairs of a map
	depth    int   // the most levels of nested arrays and maps
}

// parsedLimits are for replies that are parsed into memory, such as those of scripts and
// CLUSTER SLOTS. passedLimits are for replies that are only passed on.
var (
	parsedLimits = scanLimits{16 << 20, 1 << 17, 16}
	passedLimits = scanLimits{1 << 32, 1 << 32, 4096}
)

// feed checks the next bytes of the connection. It returns ErrMalformed if a reply is invalid or
// exceeds the limits.
func (s *scanner) feed(p []byte) error {
	for len(p) > 0 {
		if s.skip > 0 {
			n := min(s.skip, int64(len(p)))
			p = p[n:]
			if s.skip -= n; s.skip == 0 {
				s.done()
			}
			continue
		}
		line, rest, ended := bytes.Cut(p, []byte{'\n'})
		s.n += copy(s.head[s.n:], line)
		if !ended {
			return nil
		}
		p = rest
		if err := s.line(); err != nil {
			return err
		}
		s.n = 0
	}
	return nil
}

// line checks a complete line: a reply of one line, or the header of a longer one.
func (s *scanner) line() error {
	line := bytes.TrimSuffix(s.head[:s.n], []byte{'\r'})
	if len(line) == 0 {
		return ErrMalformed
	}
	limits := &s.limits
	if !s.complete {
		limits = &parsedLimits // the greeting is always parsed
	}
	most := limits.elements
	switch line[0] {
	default:
		s.done()
		return nil
	case '$', '=', '!':
		most = limits.bytes
	case '*', '~', '>', '%', '|':
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
func (s *scanner) done() {
	for top := len(s.left) - 1; top >= 0; top-- {
		if s.left[top]--; s.left[top] > 0 {
			return
		}
		s.left = s.left[:top]
	}
	s.complete = true
}
