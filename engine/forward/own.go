package forward

import (
	"bytes"
	"errors"
	"slices"
	"strings"

	"github.com/rlproxy/rlproxy/internal/redisline"
	"github.com/rlproxy/rlproxy/lua"
)

// What is on a node for rlproxy itself: the stored keys of rate limits, which clients may read but not write, and the
// library of functions, which clients may neither call nor replace.

// reservedPrefix is the prefix of the stored keys.
const reservedPrefix = "rl:{"

func reserved(key []byte) bool { return bytes.HasPrefix(key, []byte(reservedPrefix)) }

// reservedWord returns the first word that would be a stored key, or nil.
func reservedWord(args [][]byte) []byte {
	if i := slices.IndexFunc(args, reserved); i >= 0 {
		return args[i]
	}
	return nil
}

// maxQuoted is the most bytes of a client's word that an error quotes.
const maxQuoted = 128

// quote returns a word as an error quotes it.
func quote(word []byte) string { return "'" + string(word[:min(len(word), maxQuoted)]) + "'" }

// errReserved returns the error of a command that would write to a stored key.
func errReserved(key []byte) error {
	return errors.New("ERR keys that begin with rl:{ hold the state of rate limits and can't be written: " + quote(key))
}

// errOwned returns the error of a command that names a library or a function of rlproxy.
func errOwned(name []byte) error {
	return errors.New("ERR " + quote(name) + " is rlproxy's own: clients can't call, load or delete it")
}

// namesOwnCode refuses a command whose word at that index is the name of a library, a function or a script of rlproxy.
func namesOwnCode(at int) form {
	return func(_ *commandRow, args [][]byte) error {
		if lua.Owns(args[at]) {
			return errOwned(args[at])
		}
		return nil
	}
}

// loadsOwnLibrary refuses a FUNCTION LOAD of a library with a name of rlproxy's. The name is on the first line of the
// text, which servers split into words as they split an inline command.
func loadsOwnLibrary(_ *commandRow, args [][]byte) error {
	line, _, _ := bytes.Cut(args[len(args)-1], []byte("\n"))
	words, _ := redisline.Split(line)
	for _, w := range words {
		const key = "name="
		if len(w) > len(key) && strings.EqualFold(string(w[:len(key)]), key) && lua.Owns(w[len(key):]) {
			return errOwned(w[len(key):])
		}
	}
	return nil
}

// loadOwn is the command that loads rlproxy's library. It precedes the libraries of clients, whatever its reply: the
// names of its functions are taken then, so that no other library can register them.
var loadOwn = []any{"function", "load", lua.Library.Source}
