// Package lua holds the scripts that run on a Redis node: an immutable list of
// name, source and hash. A script is put together from the files beside this one:
// record.lua is the stored value, one file per algorithm decides, and the last part
// says what the script reads and returns.
package lua

import (
	"crypto/sha1" //nolint:gosec // EVALSHA names scripts by their SHA-1
	"embed"
	"encoding/hex"
	"slices"
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

// state is what every script begins with: the stored value and the algorithms.
var state = []string{"base", "record", "slide", "counter", "fixed", "throttle", "ask"}

// The scripts. The header of the last file of each says KEYS, ARGV and returns.
var (
	Decide = script("decide", "base", "quick",
		"local function general(clock)", "base", "record", "slide", "counter", "fixed", "throttle", "ask", "split", "part", "home", "decide", "end",
		"batch")
	Inspect = script("inspect", with("inspect")...)

	// Of split keys: Lend and Forget run at the home, Recall and Take at a part.
	Lend   = script("lend", with("split", "home", "lend")...)
	Forget = script("forget", with("split", "home", "forget")...)
	Recall = script("recall", with("split", "part", "recall")...)
	Take   = script("take", with("split", "part", "take")...)
)

// All lists every script, for loading them into a node.
var All = []*Script{Decide, Inspect, Lend, Forget, Recall, Take}

// with returns state and then more.
func with(more ...string) []string { return append(slices.Clip(state), more...) }

func script(name string, parts ...string) *Script {
	var b strings.Builder
	// The first line makes Redis 7 treat the script as one that writes: a replica
	// and a node that is out of memory refuse it whole.
	b.WriteString("#!lua\n")
	for _, part := range parts {
		if strings.HasPrefix(part, "local ") || part == "end" {
			b.WriteString(part + "\n")
			continue
		}
		text, err := files.ReadFile(part + ".lua")
		if err != nil {
			panic(err) // a part that is not embedded: no build has passed its tests
		}
		b.Write(text)
		b.WriteByte('\n')
	}
	source := b.String()
	sum := sha1.Sum([]byte(source)) //nolint:gosec // as above
	return &Script{Name: name, Source: source, SHA: hex.EncodeToString(sum[:])}
}
