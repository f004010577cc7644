package conformance

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/rlproxy/rlproxy/commands/table"
	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/limit"
)

// Lines makes random command lines from the rows of the rate limit commands, and so of every algorithm that registers one. For
// each argument, it draws from a few values at a time, so that many lines are about the same states.
type Lines struct {
	*rand.Rand
	Keys    []string           // what keys are drawn from
	Without []string           // tokens of options that no line has; without TZ, there are no calendar windows
	With    []string           // tokens of options that all lines have whose commands know them
	From    map[string][]int64 // what the values of arguments are drawn from, by Token or else Name; see values

	few  map[string][]int64 // the present choices
	last []string           // the latest lines, some of which come again
}

// values has what the values of arguments are drawn from, unless From says otherwise; those of windows are in ms. All other
// integers are drawn from integers.
var (
	values = map[string][]int64{
		"window": {1, 2, 7, 50, 250, 1000, 9999, 60_000, 86_400_000, limit.MaxWindow},
		"TZ":     {0, 0, 1, 1, 2, 3, 4, 5},
		"TTL":    {20, 1000, 100_000, 100_000, 10_000_000},
	}
	integers = []int64{1, 1, 2, 2, 3, 3, 5, 5, 12, 12, 40, 100, 1000, 3000, 65_536, 65_537, 200_000, limit.MaxLimit}
)

// Words of calendar windows and of their zones.
var (
	calendars = []string{"day", "week", "month", "year"}
	zones     = []string{"UTC", "Europe/Berlin", "Asia/Kolkata", "Australia/Lord_Howe", "America/Havana", "Pacific/Apia"}
)

// Decisions are the names of the commands of all algorithms.
var Decisions = func() (names []string) {
	for _, k := range Kinds(limit.Kind.Known) {
		if k != limit.Concurrency {
			names = append(names, k.String())
		}
	}
	return names
}()

// Narrow makes new choices of values.
func (l *Lines) Narrow() { l.few = map[string][]int64{} }

// Add adds the requests of a random line about one of some commands to a pipeline, and returns the line.
func (l *Lines) Add(p *engine.Pipeline, names ...string) string {
	for try := 0; ; try++ {
		if try%20 == 0 && (try > 0 || l.few == nil) {
			l.Narrow() // the choices may fit no command
		}
		if line := l.line(names[l.IntN(len(names))]); Parses(p, line) {
			l.last = append(l.last[max(len(l.last)-12, 0):], line)
			return line
		}
	}
}

// line returns a random line about a command, which may have mistakes, such as a cost above a limit.
func (l *Lines) line(name string) string {
	args := commands[strings.ToLower(name)].Args
	keys := l.Perm(len(l.Keys))
	words := []string{name}
	for n := 0; ; n++ {
		words = append(words, l.words(args, l.Keys[keys[n]], n > 0)...)
		if n+1 == len(keys) || slices.Contains(l.Without, "AND") || l.IntN(3) == 0 || args[len(args)-1].Token != "AND" {
			return strings.Join(words, " ")
		}
		words = append(words, "AND")
	}
}

// Again adds one of the latest lines, or the latest.
func (l *Lines) Again(p *engine.Pipeline, latest bool) {
	if n := len(l.last); n > 0 {
		if !latest {
			n = 1 + l.IntN(n)
		}
		parseLine(p, l.last[n-1])
	}
}

// words returns the words of arguments about a key, without AND; another says that it is not the first key.
func (l *Lines) words(args []table.Arg, key string, another bool) (words []string) {
	for _, a := range args {
		switch {
		case a.Token == "AND" || slices.Contains(l.Without, a.Token) && a.Token != "" || another && a.Token == "ONCE":
			continue
		case a.Optional && l.IntN(3) > 0 && !slices.Contains(l.With, a.Token):
			continue
		case a.Token != "":
			words = append(words, a.Token)
		}
		times := 1
		if a.Multiple && l.IntN(4) == 0 {
			times += l.IntN(3)
		}
		for range times {
			words = append(words, l.value(&a, key)...)
		}
	}
	return words
}

// value returns the words of an argument's value.
func (l *Lines) value(a *table.Arg, key string) []string {
	switch {
	case a.Type == "key":
		return []string{key}
	case a.Name == "policy":
		return []string{strings.Join(l.policy(), ",")}
	case a.Type == "block":
		return l.words(a.Args, key, false)
	case a.Type == "oneof":
		choice := a.Args[l.IntN(len(a.Args))]
		return append([]string{choice.Token}, l.words(choice.Args, key, false)...)
	case a.Type == "pure-token":
		return nil
	case l.From[cmp.Or(a.Token, a.Name)] == nil && (a.Token == "COST" || a.Name == "cost" || a.Name == "quantity"):
		return []string{strconv.FormatInt(l.cost(), 10)}
	case a.Token == "TTL":
		return []string{fmt.Sprint(1+l.Int64N(l.Choice("TTL")), "ms")}
	case a.Name == "window":
		if l.IntN(6) == 0 && !slices.Contains(l.Without, "TZ") { // only RL.FIXED has them
			return []string{calendars[l.IntN(len(calendars))]}
		}
		return []string{fmt.Sprint(l.Choice("window"), "ms")}
	case a.Token == "TZ":
		return []string{zones[l.Choice("TZ")]}
	case a.Type == "integer":
		return []string{strconv.FormatInt(l.Choice(cmp.Or(a.Token, a.Name)), 10)}
	}
	return []string{fmt.Sprint("id", l.IntN(6))}
}

// policy returns the words of a policy whose units can be held.
func (l *Lines) policy() []string {
	of := Kinds(limit.Kind.Additive)
	name := of[l.IntN(len(of))].String()
	args := commands[strings.ToLower(name)].Args[1:] // without the key
	args = slices.DeleteFunc(slices.Clone(args), func(a table.Arg) bool {
		return slices.Contains([]string{"COST", "ID", "ONCE", "SHARDS", "FAIL", "SHADOW"}, a.Token)
	})
	return append([]string{strings.TrimPrefix(name, "RL.")}, l.words(args, "", false)...)
}

// cost returns a cost: a small one, or up to a present choice.
func (l *Lines) cost() int64 {
	switch l.IntN(8) {
	case 0:
		return 0
	case 1:
		return 1 + l.Int64N(max(l.Choice("limit"), 1))
	case 2, 3:
		return 1 + l.Int64N(4)
	}
	return 1
}

// Choice returns one of the present choices for an argument's value.
func (l *Lines) Choice(name string) int64 {
	some := l.few[name]
	if some == nil {
		from := l.From[name]
		if from == nil {
			from = values[name]
		}
		if from == nil {
			from = integers
		}
		for range 1 + l.IntN(4) {
			some = append(some, from[l.IntN(len(from))])
		}
		l.few[name] = some
	}
	return some[l.IntN(len(some))]
}
