package resp

import (
	"errors"
	"strconv"
	"strings"
)

// reference is a simple parser of all bytes of a connection, with which the reader is
// compared. It returns the commands and the error that ends the stream early, or "".
func reference(text string, trusted bool, maxBulk int) (cmds [][]string, failure string) {
	for text != "" {
		var words []string
		var rest string
		var err error
		if text[0] == '*' {
			words, rest, err = referenceArray(text, trusted, maxBulk)
		} else {
			line, after, found := strings.Cut(text, "\n")
			switch {
			case len(line) > 65536:
				err = errors.New("ERR Protocol error: too big inline request")
			case !found:
				return cmds, ""
			default:
				rest = after
				words, err = referenceWords(line)
			}
		}
		if errors.Is(err, errPartial) {
			return cmds, ""
		}
		if err != nil {
			return cmds, err.Error()
		}
		text = rest
		if len(words) == 0 {
			continue
		}
		if n := strings.ToLower(words[0]); n == "post" || n == "host:" {
			return cmds, errHTTP.Error()
		}
		cmds = append(cmds, words)
	}
	return cmds, ""
}

var errPartial = errors.New("incomplete")

func referenceLine(text, tooBig string) (line, rest string, err error) {
	line, rest, found := strings.Cut(text, "\r")
	switch {
	case len(line) > 65536:
		return "", "", errors.New("ERR Protocol error: " + tooBig)
	case !found || rest == "":
		return "", "", errPartial
	}
	return line, rest[1:], nil
}

func referenceArray(text string, trusted bool, maxBulk int) ([]string, string, error) {
	line, rest, err := referenceLine(text, "too big mbulk count string")
	if err != nil {
		return nil, "", err
	}
	count, err := strconv.Atoi(line[1:])
	if err != nil || strconv.Itoa(count) != line[1:] || count > 1024*1024 {
		return nil, "", errors.New("ERR Protocol error: invalid multibulk length")
	}
	if count > 10 && !trusted {
		return nil, "", errors.New("ERR Protocol error: unauthenticated multibulk length")
	}
	var words []string
	for range max(count, 0) {
		line, after, err := referenceLine(rest, "too big bulk count string")
		if err != nil {
			return nil, "", err
		}
		if rest[0] != '$' {
			return nil, "", errors.New("ERR Protocol error: expected '$', got '" + rest[:1] + "'")
		}
		size, err := strconv.Atoi(line[1:])
		if err != nil || strconv.Itoa(size) != line[1:] || size < 0 || size > maxBulk {
			return nil, "", errors.New("ERR Protocol error: invalid bulk length")
		}
		if size > 16384 && !trusted {
			return nil, "", errors.New("ERR Protocol error: unauthenticated bulk length")
		}
		if len(after) < size+2 {
			return nil, "", errPartial
		}
		words = append(words, after[:size])
		rest = after[size+2:]
	}
	return words, rest, nil
}

// referenceWords splits an inline command with a state machine.
func referenceWords(line string) ([]string, error) {
	const space = " \t\n\v\f\r"
	var words []string
	var word strings.Builder
	state := ' ' // ' ' between words, 'w' in a word, '"' or '\'' in quotes, 'e' after a closing quote
	for i := 0; i < len(line); i++ {
		c := line[i]
		switch {
		case (state == ' ' || state == 'e') && strings.IndexByte(space, c) >= 0:
			state = ' '
			continue
		case state == 'e':
			return nil, errQuotes
		case state == 'w' && strings.IndexByte(" \n\r\t", c) >= 0:
			words = append(words, word.String())
			word.Reset()
			state = ' '
			continue
		case state == ' ' || state == 'w':
			if state = 'w'; c == '"' || c == '\'' {
				state = rune(c)
				continue
			}
		case rune(c) == state:
			words = append(words, word.String())
			word.Reset()
			state = 'e'
			continue
		case state == '\'' && strings.HasPrefix(line[i:], `\'`):
			i, c = i+1, '\''
		case state == '"' && c == '\\' && i+1 < len(line):
			if len(line) >= i+4 && line[i+1] == 'x' {
				if n, err := strconv.ParseUint(line[i+2:i+4], 16, 8); err == nil {
					word.WriteByte(byte(n))
					i += 3
					continue
				}
			}
			i, c = i+1, line[i+1]
			if at := strings.IndexByte("nrtba", c); at >= 0 {
				c = "\n\r\t\b\a"[at]
			}
		}
		word.WriteByte(c)
	}
	switch state {
	case 'w':
		words = append(words, word.String())
	case '"', '\'':
		return nil, errQuotes
	}
	return words, nil
}
