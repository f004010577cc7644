package config

import (
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rlproxy/rlproxy/commands/word"
)

// value parses and formats the setting of one directive. Its implementations point
// to fields of a config.
type value interface {
	// set parses the words that follow the directive's name. It returns false, and
	// sets nothing, if they are not allowed.
	set(words []string) bool
	// allowed completes the sentence "<directive> must be ...".
	allowed() string
	// words returns the setting as written in a configuration file, one slice per line.
	words() [][]string
}

// explained is a value whose errors explain what is wrong with words.
type explained interface {
	value
	put(words []string) error // instead of set
}

// refusal returns why CONFIG SET refuses words, in the words of Redis if it has such a value.
func refusal(v value, words []string) string {
	switch v := v.(type) {
	case span:
		return refusal(integer{nil, v.low, v.high}, words)
	case integer:
		if word, _ := single(words); word == "" || strings.Trim(strings.TrimPrefix(word, "-"), "0123456789") != "" {
			return "argument couldn't be parsed into an integer"
		}
		return fmt.Sprintf("argument must be between %d and %d inclusive", v.low, v.high)
	case choice[string]:
		return "argument(s) must be one of the following: " + strings.Join(v.names, ", ")
	case choice[bool]:
		return "argument must be 'yes' or 'no'"
	}
	return "argument must be " + v.allowed() + given(words)
}

// single returns the word of a setting that takes exactly one.
func single(words []string) (string, bool) {
	if len(words) != 1 {
		return "", false
	}
	return words[0], true
}

// line returns the words of a setting that has one line with one word.
func line(word string) [][]string {
	return [][]string{{word}}
}

// integer is an integer from low to high.
type integer struct {
	p         *int
	low, high int
}

func (v integer) set(words []string) bool {
	word, ok := single(words)
	n, err := strconv.Atoi(word)
	if !ok || err != nil || n < v.low || n > v.high {
		return false
	}
	*v.p = n
	return true
}

func (v integer) allowed() string {
	return "an integer from " + strconv.Itoa(v.low) + " to " + strconv.Itoa(v.high)
}

func (v integer) words() [][]string { return line(strconv.Itoa(*v.p)) }

// span is a duration, written as an integer number of units.
type span struct {
	p         *time.Duration
	unit      time.Duration
	low, high int
}

func (v span) set(words []string) bool {
	var n int
	if !(integer{&n, v.low, v.high}).set(words) {
		return false
	}
	*v.p = time.Duration(n) * v.unit
	return true
}

func (v span) allowed() string {
	unit := map[time.Duration]string{time.Second: "seconds", time.Millisecond: "milliseconds",
		time.Microsecond: "microseconds"}[v.unit]
	return unit + ", " + integer{nil, v.low, v.high}.allowed()
}

func (v span) words() [][]string { return line(strconv.Itoa(int(*v.p / v.unit))) }

// size is a number of bytes, at least low, with Redis's units in any case: k, m and g
// are powers of 1000; kb, mb and gb are powers of 1024.
type size struct {
	p   *int64
	low int64
}

var units = []struct {
	suffix string
	bytes  int64
}{
	{"kb", 1 << 10}, {"mb", 1 << 20}, {"gb", 1 << 30},
	{"k", 1e3}, {"m", 1e6}, {"g", 1e9}, {"b", 1},
}

// parseSize parses a size. It returns false if word is not a size or exceeds int64.
func parseSize(word string) (int64, bool) {
	word, unit := strings.ToLower(word), int64(1)
	for _, u := range units {
		if digits, ok := strings.CutSuffix(word, u.suffix); ok {
			word, unit = digits, u.bytes
			break
		}
	}
	n, err := strconv.ParseUint(word, 10, 63)
	if err != nil || int64(n) > math.MaxInt64/unit {
		return 0, false
	}
	return int64(n) * unit, true
}

func (v size) set(words []string) bool {
	word, ok := single(words)
	n, valid := parseSize(word)
	if !ok || !valid || n < v.low {
		return false
	}
	*v.p = n
	return true
}

func (v size) allowed() string {
	s := "a size in bytes such as 100mb or 1gb"
	if v.low > 0 {
		s += ", at least " + strconv.FormatInt(v.low, 10)
	}
	return s
}

func (v size) words() [][]string { return line(strconv.FormatInt(*v.p, 10)) }

// choice is one of a few values, by their names in any case.
type choice[T comparable] struct {
	p      *T
	names  []string // in lower case
	values []T      // in the order of names
}

// oneOf is a choice among names.
func oneOf(p *string, names ...string) choice[string] { return choice[string]{p, names, names} }

func yesNo(p *bool) choice[bool] { return choice[bool]{p, []string{"yes", "no"}, []bool{true, false}} }

func (v choice[T]) set(words []string) bool {
	word, ok := single(words)
	i := slices.Index(v.names, strings.ToLower(word))
	if !ok || i < 0 {
		return false
	}
	*v.p = v.values[i]
	return true
}

func (v choice[T]) allowed() string   { return word.List(v.names) }
func (v choice[T]) words() [][]string { return line(v.names[slices.Index(v.values, *v.p)]) }

// text is any one word. The empty word means unset.
type text struct {
	p    *string
	what string // returned by allowed
}

func (v text) set(words []string) bool {
	word, ok := single(words)
	if ok {
		*v.p = word
	}
	return ok
}

func (v text) allowed() string   { return v.what }
func (v text) words() [][]string { return line(*v.p) }

// maxSocketPath is the most bytes of a Unix socket's path to which the system can bind.
const maxSocketPath = len(syscall.RawSockaddrUnix{}.Path) - 1

// socketPath is the path of a Unix socket. The empty word means unset.
type socketPath struct{ text }

func (v socketPath) set(words []string) bool {
	word, _ := single(words)
	return len(word) <= maxSocketPath && v.text.set(words)
}

func (v socketPath) allowed() string { return fmt.Sprintf("a path of at most %d bytes", maxSocketPath) }

// fileMode is the mode of a file, in octal; 0 leaves it to the umask.
type fileMode struct{ p *fs.FileMode }

func (v fileMode) set(words []string) bool {
	word, ok := single(words)
	n, err := strconv.ParseUint(word, 8, 32)
	if !ok || err != nil || n > 0o777 {
		return false
	}
	*v.p = fs.FileMode(n)
	return true
}

func (v fileMode) allowed() string   { return "an octal file mode from 0 to 777" }
func (v fileMode) words() [][]string { return line(strconv.FormatUint(uint64(*v.p), 8)) }
