package ratelimit

import (
	"regexp"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlproxy/rlproxy/commands/table"
	"github.com/rlproxy/rlproxy/shard"
)

// line is a command that is composed from the table.
type line struct {
	words []string
	keys  []string // those among the words
	n     int      // words that were numbered so far, so that no two are equal
}

// compose returns the shortest line of a command. With several, whatever may be repeated is there twice, and so are
// optional blocks with keys.
func compose(c *Command, several bool) line {
	l := line{words: []string{c.Name}}
	l.add(c.Args, several)
	return l
}

func (l *line) add(args []table.Arg, several bool) {
	for i := range args {
		a := &args[i]
		hasKey := slices.ContainsFunc(a.Args, func(a table.Arg) bool { return a.Type == "key" })
		if a.Optional && (!several || !hasKey) {
			continue
		}
		times := 1
		if several && a.Multiple {
			times = 2
		}
		for j := range times {
			if a.Token != "" && (j == 0 || a.MultipleToken) {
				l.words = append(l.words, a.Token)
			}
			l.addValue(a, several)
		}
	}
}

func (l *line) addValue(a *table.Arg, several bool) {
	l.n++
	switch a.Type {
	case "pure-token":
	case "block":
		l.add(a.Args, several)
	case "oneof":
		l.add(a.Args[:1], several)
	case "key":
		l.keys = append(l.keys, "key:"+strconv.Itoa(l.n))
		l.words = append(l.words, l.keys[len(l.keys)-1])
	case "integer":
		l.words = append(l.words, "5")
	default: // a window or an id
		l.words = append(l.words, strconv.Itoa(100+l.n))
	}
}

func (l *line) args() (args [][]byte) {
	for _, w := range l.words {
		args = append(args, []byte(w))
	}
	return args
}

// A user's rules are checked against the keys that the table finds in a command. So these must be the keys that the
// command is about.
func TestTheTableFindsTheKeysOfEveryRequest(t *testing.T) {
	for _, c := range Commands() {
		for _, several := range []bool{false, true} {
			l := compose(&c, several)
			requests, msg := parseAll(&c, l.args())
			require.Empty(t, msg, l.words)
			var asked, found []string
			for i := range requests {
				key, _ := shard.ClientKey(requests[i].Key)
				if !slices.Contains(asked, string(key)) {
					asked = append(asked, string(key))
				}
			}
			for _, key := range c.Keys.Of(l.args()) {
				found = append(found, string(key))
			}
			require.Equal(t, l.keys, asked, l.words)
			require.Equal(t, l.keys, found, l.words)
		}
	}
}

// The documentation, COMMAND DOCS and the grammar have the same options.
func TestTheTableHasTheOptionsOfTheGrammar(t *testing.T) {
	expected := regexp.MustCompile(`^ERR syntax error: unknown option 'NX'; expected (.*)$`)
	commands := 0
	for _, c := range Commands() {
		l := compose(&c, false)
		l.words = append(l.words, "NX")
		_, msg := parseAll(&c, l.args())
		found := expected.FindStringSubmatch(msg)
		if found == nil {
			continue // the command has no options
		}
		commands++
		understood := regexp.MustCompile(`[A-Z]+`).FindAllString(found[1], -1) // "another limit" may follow
		var documented []string
		for i := range c.Args {
			if c.Args[i].Optional {
				documented = append(documented, c.Args[i].Token)
			}
		}
		require.ElementsMatch(t, understood, documented, c.Name)
	}
	require.Positive(t, commands)
}
