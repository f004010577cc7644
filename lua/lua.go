// Package lua has the code that runs on a Redis node: one library of Redis Functions, joined from the Lua files in
// this folder. schema.lua has the format of the stored records, and messages.lua that of the messages between rlproxy
// and the functions. Each algorithm has a file that registers it, see algorithms.lua. The functions that rlproxy
// calls are described in decide.lua, admit.lua, settle.lua, each.lua, all.lua, home.lua, shard.lua and inspect.lua.
// If a description begins with ARGV[2], KEYS[1] is the stored key, and ARGV[1] is the clock, see record.guarded.
// Begin with schema.lua, messages.lua, record.lua and decide.lua.
//
// Every file is a chunk of its own, which gets the library's table and adds its functions to it. The files are joined
// unchanged, comments included. A node has none of the modules that they use while it loads a library, so the files
// run when a function is called for the first time.
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

// The files that are not algorithms, each after those that it needs: before the algorithms, and after them.
var (
	before = []string{"schema", "messages", "algorithms", "record", "rate"}
	after  = []string{
		"spec", "holds", "ids", "lease", "home", "advance", "shard", "decide", "fast_holds", "admit", "settle", "each",
		"all", "inspect",
	}
)

// order lists all files, each after those that it needs.
func order() []string {
	entries, err := files.ReadDir(".")
	if err != nil {
		panic(err) // what is embedded can be read
	}
	list := slices.Clone(before)
	for _, e := range entries {
		if name := strings.TrimSuffix(e.Name(), ".lua"); !slices.Contains(before, name) && !slices.Contains(after,
			name) {
			list = append(list, name)
		}
	}
	return append(list, after...)
}

// Function is one function of the library.
type Function struct {
	Name  string // as FCALL takes it: it ends in the hash of the library's text
	short string // in the library's table
	full  bool   // a node that is out of memory runs it, too
	reads bool   // it writes nothing, so a node runs it, too, that refuses all writes, and so does a replica
}

// The functions. Decide answers batches of requests without ids. Admit and Settle are about one id of one key. Each
// runs those two for several, and renews leases. All answers a multi-key request, and Inspect describes a key. For
// split keys, Lend and Forget run at the home, Recall and Take at a shard. Advance accounts for an advance and asks for
// more; Account only accounts.
//
// Reset is Decide for batches of resets alone, and End is Each for requests that only end or renew holds. A node that
// is out of memory runs these two, Settle, Account and Inspect, because they admit nothing. A node that cannot save its
// data or lacks replicas refuses all that may write, even these. Look is Inspect for such a node.
var (
	Decide  = &Function{Name: "decide", short: "decide"}
	Reset   = &Function{Name: "reset", short: "decide", full: true}
	Admit   = &Function{Name: "admit", short: "admit"}
	Settle  = &Function{Name: "settle", short: "settle", full: true}
	Each    = &Function{Name: "each", short: "each"}
	End     = &Function{Name: "end", short: "each", full: true}
	All     = &Function{Name: "all", short: "all"}
	Inspect = &Function{Name: "inspect", short: "inspect", full: true}
	Look    = &Function{Name: "look", short: "inspect", reads: true}
	Lend    = &Function{Name: "lend", short: "lend"}
	Forget  = &Function{Name: "forget", short: "forget"}
	Recall  = &Function{Name: "recall", short: "recall"}
	Take    = &Function{Name: "take", short: "take"}
	Advance = &Function{Name: "advance", short: "account"}
	Account = &Function{Name: "account", short: "account", full: true}
)

var functions = []*Function{Decide, Reset, Admit, Settle, Each, End, All, Inspect, Look, Lend, Forget, Recall, Take,
	Advance, Account}

// Library is the library as FUNCTION LOAD takes it. Its name ends with the hash of its text, so that a node can have
// two versions.
var Library struct{ Name, Source string }

// Script is the same code for EVALSHA, for a node that refuses FUNCTION. It takes the short name of the function as
// its first argument. It is slower, because each call creates all functions again, and keeps nothing for the next one.
var Script struct{ Source, SHA string }

func init() {
	body := join(order())
	sum := sha256.Sum256([]byte(body + registrations()))
	hash := hex.EncodeToString(sum[:6])
	Library.Name = "rlproxy_" + hash
	for _, f := range functions {
		f.Name = "rl_" + f.Name + "_" + hash
	}
	Library.Source = "#!lua name=" + Library.Name + "\n" + body + "local made\n" + registrations()
	Script.Source = "#!lua flags=allow-cross-slot-keys\n" + body + "local lib = library()\nlib.scripted = true\n" +
		"return lib[table.remove(ARGV, 1)](KEYS, ARGV)\n"
	digest := sha1.Sum([]byte(Script.Source)) //nolint:gosec // EVALSHA names scripts by their SHA-1
	Script.SHA = hex.EncodeToString(digest[:])
}

// registrations returns the text that registers the functions by their names.
//
// The flag allow-cross-slot-keys lets a node of a cluster decide keys of many slots in one call, see decide.lua. All
// functions but Look may write, so a replica refuses them before they run, and so does a node that is out of memory
// without allow-oom.
func registrations() string {
	var b strings.Builder
	for _, f := range functions {
		flags := "'allow-cross-slot-keys'"
		if f.full {
			flags += ", 'allow-oom'"
		}
		if f.reads {
			flags += ", 'no-writes'"
		}
		fmt.Fprintf(&b, "redis.register_function({ function_name = '%s', flags = { %s }, callback = "+
			"function(keys, args)\n"+
			"  made = made or library()\n  return made.%s(keys, args)\nend })\n", f.Name, flags, f.short)
	}
	return b.String()
}

// ownName matches the names of rlproxy's libraries and functions, of any version. Servers compare the names of
// functions without regard to case.
var ownName = regexp.MustCompile(`(?i)^(rlproxy|rl_[a-z]+)_[0-9a-f]{12}$`)

// Owns reports whether a name is that of a library or a function of any version of rlproxy, or the SHA of Script.
func Owns(name []byte) bool {
	return ownName.Match(name) || strings.EqualFold(string(name), Script.SHA)
}

// Short returns the function's name without the hash, as Script takes it.
func (f *Function) Short() string { return f.short }

// begins has the line of the joined text on which each file begins.
var begins []begin

type begin struct {
	line int
	file string
}

// join returns the text of a function that returns the library's table. The text begins on the second line of what is
// sent.
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

// Locate returns an error's text in which each line of the joined text that a node names is replaced by its file and
// line.
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
