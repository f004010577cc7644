package clients

import (
	"fmt"
	"strings"

	"github.com/rlproxy/rlproxy/commands/reply"
	"github.com/rlproxy/rlproxy/commands/word"
)

// MaxName is the most bytes of what a client may call itself or its library. Each connection
// keeps these names, also before a login.
const MaxName = 512

// SetName sets the client's name. msg is an error reply, or empty.
func (f *Facts) SetName(name []byte) (msg string) {
	return set(&f.Name, "a client name", name, reply.ErrClientName)
}

// SetInfo sets the name or version of the client's library, as CLIENT SETINFO does. msg is an error reply, or empty.
func (f *Facts) SetInfo(option, value []byte) (msg string) {
	to, what := &f.Lib, strings.ToLower(string(option))
	switch what {
	case "lib-name":
	case "lib-ver":
		to = &f.LibVer
	default:
		return "ERR Unrecognized option '" + string(word.Quote(option)) + "'"
	}
	return set(to, what, value, "ERR "+string(option)+" cannot contain spaces, newlines or special characters.")
}

// set sets a name, unless it is too long or not printable. what is how the error reply to a long one calls it.
func set(to *string, what string, name []byte, unprintable string) (msg string) {
	if len(name) > MaxName {
		return fmt.Sprintf("ERR %s must have at most %d bytes; it has %d: '%s...'", what, MaxName, len(name),
			word.Quote(name))
	}
	if !word.Printable(name) {
		return unprintable
	}
	*to = string(name)
	return ""
}
