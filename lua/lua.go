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
var state = text("base", "counts", "lighter", "record", "slide", "counter", "fixed", "throttle", "ask")

// The scripts. The header of the last file of each says KEYS, ARGV and returns.
var (
	Decide = script("decide", text("clock")+
		function("decide", "replies, entries, keys, before, count, clock",
			function("windows_of", "clock", text("base", "counts", "windows"))+
				function("long_of", "clock", state+text("split", "part", "home", "long"))+
				text("decide"))+
		text("batch"))
	Inspect = script("inspect", state+text("clock", "inspect"))

	// Of split keys: Lend and Forget run at the home, Recall and Take at a part.
	Lend   = script("lend", state+text("clock", "split", "home", "lend"))
	Forget = script("forget", state+text("clock", "split", "home", "forget"))
	Recall = script("recall", state+text("clock", "split", "part", "recall"))
	Take   = script("take", state+text("clock", "split", "part", "take"))
)

// All lists every script, for loading them into a node.
var All = []*Script{Decide, Inspect, Lend, Forget, Recall, Take}

// text returns the text of files, one after the other, and of those that they include.
func text(names ...string) string {
	var b strings.Builder
	for _, name := range names {
		file, err := files.ReadFile(name + ".lua")
		if err != nil {
			panic(err) // a file that is not embedded: no build has passed its tests
		}
		b.WriteString(include.ReplaceAllStringFunc(string(file), func(line string) string {
			return text(include.FindStringSubmatch(line)[1])
		}))
		b.WriteByte('\n')
	}
	return b.String()
}

// include is a line that stands for the text of another file.
var include = regexp.MustCompile(`(?m)^ *include '(\w+)'$`)

// function returns the text of a local function.
func function(name, parameters, body string) string {
	return "local function " + name + "(" + parameters + ")\n" + body + "end\n"
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
