// Package lua holds the code that runs on a Redis node: one library of Redis Functions, joined from the Lua files in this
// folder. layout.lua has the format of what is stored, each algorithm has a file of its own, and the functions that rlproxy
// calls are described at the head of decide.lua, admit.lua, settle.lua, each.lua, all.lua, home.lua, shard.lua and
// inspect.lua. Begin with layout.lua, record.lua and decide.lua.
//
// Every file is a chunk of its own, which takes the library's table and adds its functions to it. The files are joined
// unchanged, comments included. At load time a node has none of the modules that the files use, so they run when a function
// is called for the first time.
package lua

import (
	"crypto/sha1" //nolint:gosec // EVALSHA names scripts by their SHA-1
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

//go:embed *.lua
var files embed.FS

// The files that are not algorithms, each after those that it needs: those that algorithms use, and those that use them.
var (
	before = []string{"layout", "record", "rate"}
	after  = []string{"spec", "holds", "ids", "lease", "algorithms", "home", "shard", "decide", "straight", "admit", "settle", "each", "all", "inspect"}
)

// order lists all files, each after those that it needs.
func order() []string {
	entries, err := files.ReadDir(".")
	if err != nil {
		panic(err) // what is embedded can be read
	}
	list := slices.Clone(before)
	for _, e := range entries {
		if name := strings.TrimSuffix(e.Name(), ".lua"); !slices.Contains(before, name) && !slices.Contains(after, name) {
			list = append(list, name)
		}
	}
	return append(list, after...)
}

// Function is one function of the library.
type Function struct {
	Name  string // as FCALL takes it: it ends in the hash of the library's text
	short string // in the library's table
}

// The functions. Admit, Settle and Renew are about an id of one key, Each runs the first two for
// several, and All asks several keys at once. Of split keys,
// Lend and Forget run at the home, Recall and Take at a shard.
var (
	Decide  = &Function{short: "decide"}
	Admit   = &Function{short: "admit"}
	Settle  = &Function{short: "settle"}
	Renew   = &Function{short: "renew"}
	Each    = &Function{short: "each"}
	All     = &Function{short: "all"}
	Inspect = &Function{short: "inspect"}
	Lend    = &Function{short: "lend"}
	Forget  = &Function{short: "forget"}
	Recall  = &Function{short: "recall"}
	Take    = &Function{short: "take"}
)

var functions = []*Function{Decide, Admit, Settle, Renew, Each, All, Inspect, Lend, Forget, Recall, Take}

// Library is the argument of FUNCTION LOAD. Its name ends in the hash of its text, so that a node can have two versions.
var Library struct{ Name, Source string }

// Script is the same for EVALSHA, for a node that refuses FUNCTION: it takes the function's short name as the first
// argument. It is slower: each call makes all functions anew.
var Script struct{ Source, SHA string }

func init() {
	body := join(order())
	sum := sha256.Sum256([]byte(body))
	hash := hex.EncodeToString(sum[:6])
	Library.Name = "rlproxy_" + hash
	var b strings.Builder
	// The flag lets a node of a cluster answer about keys of many slots in one call, see decide.lua. A function without
	// further flags may write: a replica, and a node that is out of memory, refuse it whole.
	fmt.Fprintf(&b, "#!lua name=%s\n%slocal made\n", Library.Name, body)
	for _, f := range functions {
		f.Name = "rl_" + f.short + "_" + hash
		fmt.Fprintf(&b, "redis.register_function({ function_name = '%s', flags = { 'allow-cross-slot-keys' }, callback = function(keys, args)\n"+
			"  made = made or library()\n  return made.%s(keys, args)\nend })\n", f.Name, f.short)
	}
	Library.Source = b.String()
	Script.Source = "#!lua flags=allow-cross-slot-keys\n" + body + "return library()[table.remove(ARGV, 1)](KEYS, ARGV)\n"
	digest := sha1.Sum([]byte(Script.Source)) //nolint:gosec // EVALSHA names scripts by their SHA-1
	Script.SHA = hex.EncodeToString(digest[:])
}

// Short returns the function's name without the hash, as Script takes it.
func (f *Function) Short() string { return f.short }

// begins lists the line of the joined text on which each file begins.
var begins []begin

type begin struct {
	line int
	file string
}

// join returns the text of a function that makes the library's table. It begins on the second line of what is sent.
func join(names []string) string {
	var b strings.Builder
	b.WriteString("local function library()\nlocal lib = {}\n")
	line := 4
	for _, name := range names {
		text, err := files.ReadFile(name + ".lua")
		if err != nil {
			panic(err) // a file that is not embedded: no build has passed its tests
		}
		begins = append(begins, begin{line + 1, name + ".lua"})
		fmt.Fprintf(&b, ";(function(...)\n%send)(lib)\n", text)
		line += strings.Count(string(text), "\n") + 2
	}
	b.WriteString("return lib\nend\n")
	return b.String()
}

// position matches the form in which Redis names a line of a library or a script.
var position = regexp.MustCompile(`@?user_(?:function|script):(?: ?(\d+))`)

// Locate returns an error's text with the file and the line of each place that a node names in it.
func Locate(text string) string {
	return position.ReplaceAllStringFunc(text, func(place string) string {
		line, err := strconv.Atoi(position.FindStringSubmatch(place)[1])
		if err != nil {
			return place
		}
		for i := len(begins) - 1; i >= 0; i-- {
			if at := line - begins[i].line; at >= 0 {
				return fmt.Sprintf("lua/%s:%d", begins[i].file, at+1)
			}
		}
		return place
	})
}
