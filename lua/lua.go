// Package lua holds the scripts that run on a Redis node: an immutable list of
// name, source and hash. A script is put together from the files beside this one:
// record.lua is the stored value, one file per algorithm decides, and the last part
// says what the script reads and returns.
package lua

import (
	"crypto/sha1" //nolint:gosec // EVALSHA names scripts by their SHA-1
	"embed"
	"encoding/hex"
	"regexp"
	"strings"
)

//go:embed *.lua
var files embed.FS

// Script is one script as nodes know it.
type Script struct {
	Name   string
	Source string
	SHA    string // lower-case hex SHA-1 of Source, the name that EVALSHA takes
}

// state is what most scripts begin with: the stored value and the algorithms.
var state = text("base", "record", "slide", "counter", "fixed", "throttle", "ask")

// The scripts. The header of the last file of each says KEYS, ARGV and returns.
var (
	// The long way of a decision is a function, so that a call that goes the short way
	// does not make what it consists of. It has a base of its own: capturing the
	// locals of the script's would take each call longer than a decision does.
	Decide = script("decide", text("base", "quick", "windows", "noted")+
		"local function general(clock)\n"+state+text("split", "part", "home", "decide")+"end\n"+
		text("batch"))
	Inspect = script("inspect", state+text("inspect"))

	// Of split keys: Lend and Forget run at the home, Recall and Take at a part.
	Lend   = script("lend", state+text("split", "home", "lend"))
	Forget = script("forget", state+text("split", "home", "forget"))
	Recall = script("recall", state+text("split", "part", "recall"))
	Take   = script("take", state+text("split", "part", "take"))
)

// All lists every script, for loading them into a node.
var All = []*Script{Decide, Inspect, Lend, Forget, Recall, Take}

// text returns the text of files, one after the other.
func text(names ...string) string {
	var b strings.Builder
	for _, name := range names {
		file, err := files.ReadFile(name + ".lua")
		if err != nil {
			panic(err) // a file that is not embedded: no build has passed its tests
		}
		b.Write(file)
		b.WriteByte('\n')
	}
	return b.String()
}

func script(name, body string) *Script {
	// The first line makes Redis 7 treat the script as one that writes: a replica
	// and a node that is out of memory refuse it whole. The flag lets a node of a cluster
	// answer about keys of many slots in one call, see batch.lua.
	source := "#!lua flags=allow-cross-slot-keys\n" + fold(body)
	sum := sha1.Sum([]byte(source)) //nolint:gosec // EVALSHA names scripts by their SHA-1
	return &Script{Name: name, Source: source, SHA: hex.EncodeToString(sum[:])}
}

// constant is a line that gives names to literals, and word what may be one of the names.
var (
	constant = regexp.MustCompile(`(?m)^local ([A-Z_]+(?:, [A-Z_]+)*) += (\d+(?:, \d+)*|'[^']*')( +--.*)?$`)
	word     = regexp.MustCompile(`\b[A-Z][A-Z_]*\b`)
)

// fold puts the values of constants in place of their names: a call pays for every
// local that a function captures, and Lua 5.1 has no constants.
func fold(source string) string {
	values := map[string]string{}
	source = constant.ReplaceAllStringFunc(source, func(line string) string {
		parts := constant.FindStringSubmatch(line)
		names, literals := strings.Split(parts[1], ", "), strings.Split(parts[2], ", ")
		for i, name := range names {
			values[name] = literals[i]
		}
		return ""
	})
	return word.ReplaceAllStringFunc(source, func(name string) string {
		if value, ok := values[name]; ok {
			return value
		}
		return name
	})
}
