package resp

import (
	"bytes"

	"github.com/rlproxy/rlproxy/internal/redisline"
)

// maxLine is the most bytes of a length line or an inline command, as in Redis.
const maxLine = 64 << 10

// shortLine is the number of bytes within which the end of a length line is searched
// byte by byte, which is faster for short lines.
const shortLine = 8

// The bounds before authentication, as in Redis.
const (
	untrustedArgs = 10       // arguments of a command
	untrustedBulk = 16 << 10 // bytes of an argument
)

// framer finds where each command in a stream of bytes ends, and refuses what Redis refuses. It keeps its position:
// every byte is examined once, however the stream is fragmented.
type framer struct {
	maxArgs int64 // the most arguments of a command
	maxBulk int64 // the most bytes of an argument

	off  int // bytes of the current command that are parsed
	seen int // bytes after off that contain no line end
	argc int // arguments of the current command; 0 before its header is parsed
	left int // arguments that are not complete yet
	bulk int // bytes of the current argument; -1 before its length line is parsed
}

// frame describes the command at the start of the bytes given to next.
type frame struct {
	size   int  // bytes of the command; 0 if it is not complete yet
	argc   int  // arguments of a multibulk command, the most that a line may have; 0 if there is nothing to run
	inline bool // the command is a line of words, for redisline.Split
}

// next finds the end of the command that starts at b[0]. If the command is incomplete, the caller calls next again with
// the same bytes and more. Like Redis, it accepts any byte in place of \n, and any two after an argument.
func (f *framer) next(b []byte, trusted bool) (frame, error) {
	if len(b) == 0 {
		return frame{}, nil
	}
	if f.argc == 0 {
		if b[0] != '*' {
			return f.inline(b)
		}
		n, ok, err := f.header(b, trusted)
		if err != nil || !ok {
			return frame{}, err
		}
		if n <= 0 {
			return f.done(frame{}), nil
		}
		f.argc, f.left, f.bulk = n, n, -1
	}
	for f.left > 0 {
		if f.bulk < 0 {
			ok, err := f.bulkHeader(b, trusted)
			if err != nil || !ok {
				return frame{}, err
			}
		}
		if len(b)-f.off < f.bulk+2 {
			return frame{}, nil
		}
		f.off += f.bulk + 2
		f.bulk = -1
		f.left--
	}
	return f.done(frame{argc: f.argc}), nil
}

// done ends the current command and prepares the framer for the next one.
func (f *framer) done(fr frame) frame {
	fr.size = f.off
	f.off, f.seen, f.argc = 0, 0, 0
	return fr
}

// header parses the first line of a command, *count.
func (f *framer) header(b []byte, trusted bool) (int, bool, error) {
	line, ok, err := f.line(b, errBigCount)
	if err != nil || !ok {
		return 0, false, err
	}
	n, ok := parseLength(line[1:])
	switch {
	case !ok || n > f.maxArgs:
		return 0, false, errCount
	case n > untrustedArgs && !trusted:
		return 0, false, errUntrustedCount
	}
	return int(n), true, nil
}

// bulkHeader parses the first line of an argument, $length.
func (f *framer) bulkHeader(b []byte, trusted bool) (bool, error) {
	line, ok, err := f.line(b, errBigBulk)
	if err != nil || !ok {
		return false, err
	}
	if line[0] != '$' {
		return false, errNoDollar(line[0])
	}
	n, ok := parseLength(line[1:])
	switch {
	case !ok || n < 0 || n > f.maxBulk:
		return false, errBulk
	case n > untrustedBulk && !trusted:
		return false, errUntrustedBulk
	}
	f.bulk = int(n)
	return true, nil
}

// line returns the length line at b[f.off:] and moves past it. The result has at least
// one byte: for an empty line it is the \r that ends it.
func (f *framer) line(b []byte, tooBig protocolError) ([]byte, bool, error) {
	rest := b[f.off:]
	for f.seen < len(rest) && f.seen < shortLine && rest[f.seen] != '\r' {
		f.seen++
	}
	if f.seen >= shortLine {
		if i := bytes.IndexByte(rest[f.seen:], '\r'); i < 0 {
			f.seen = len(rest)
		} else {
			f.seen += i
		}
	}
	if f.seen > maxLine {
		return nil, false, tooBig
	}
	if f.seen+1 >= len(rest) {
		return nil, false, nil
	}
	line := rest[:max(f.seen, 1)]
	f.off, f.seen = f.off+f.seen+2, 0
	return line, true, nil
}

// split appends the arguments of b, a command of argc arguments that the framer has found. They alias b.
func split(dst [][]byte, b []byte, argc int) [][]byte {
	at := bytes.IndexByte(b, '\r') + 2
	for range argc {
		size := 0
		for at++; b[at] != '\r'; at++ { // from the byte after $
			size = size*10 + int(b[at]-'0')
		}
		at += 2
		dst = append(dst, b[at:at+size])
		at += size + 2
	}
	return dst
}

// inline finds the end of a command that is a line of words.
func (f *framer) inline(b []byte) (frame, error) {
	i := bytes.IndexByte(b[f.seen:], '\n')
	if i < 0 {
		f.seen = len(b)
	} else {
		f.seen += i
	}
	if f.seen > maxLine {
		return frame{}, errBigInline
	}
	if i < 0 {
		return frame{}, nil
	}
	f.off = f.seen + 1
	return f.done(frame{inline: true, argc: redisline.Count(b[:f.off])}), nil
}

// parseLength parses an integer as Redis does: no sign but -, no leading zero, no space.
// It refuses numbers with more digits than any bound allows.
func parseLength(b []byte) (int64, bool) {
	negative := len(b) > 1 && b[0] == '-'
	if negative {
		b = b[1:]
	}
	if len(b) == 0 || len(b) > 18 || b[0] == '0' && (len(b) > 1 || negative) {
		return 0, false
	}
	n := int64(0)
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	if negative {
		n = -n
	}
	return n, true
}
