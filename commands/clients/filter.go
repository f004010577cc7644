package clients

import (
	"slices"

	"github.com/rlproxy/rlproxy/commands/reply"
	"github.com/rlproxy/rlproxy/commands/word"
)

// Filter selects clients for CLIENT LIST and CLIENT KILL. A zero field selects all clients.
type Filter struct {
	ids               []int64 // sorted
	kind              string  // type of client, in lower case
	user, addr, laddr *string
}

// Matches reports whether the filter selects a client.
func (f *Filter) Matches(c *Client) bool {
	facts := c.Facts()
	kind := "normal"
	if facts.Subs > 0 {
		kind = "pubsub"
	}
	switch {
	case f.ids != nil && !f.names(c.ID),
		f.kind != "" && f.kind != kind,
		f.user != nil && *f.user != facts.User,
		f.addr != nil && *f.addr != Addr(c.Remote),
		f.laddr != nil && *f.laddr != Addr(c.Local):
		return false
	}
	return true
}

// names reports whether the filter names a client by its ID.
func (f *Filter) names(id int64) bool {
	_, found := slices.BinarySearch(f.ids, id)
	return found
}

// ByAddr returns a filter that selects the client at an address.
func ByAddr(addr string) Filter { return Filter{addr: &addr} }

// ParseList parses the words after CLIENT LIST. msg is an error reply, or empty.
func ParseList(words [][]byte) (f Filter, msg string) {
	switch {
	case len(words) == 0:
	case len(words) == 2 && word.Is(words[0], "TYPE"):
		msg = f.setKind(words[1])
	case len(words) > 1 && word.Is(words[0], "ID"):
		for _, w := range words[1:] {
			id, ok := word.Integer(w)
			if !ok {
				return f, reply.ErrClientID
			}
			f.ids = append(f.ids, id)
		}
		slices.Sort(f.ids)
	default:
		msg = reply.ErrSyntax
	}
	return f, msg
}

// ParseKill parses the pairs of words after CLIENT KILL. known reports whether there is a user with
// a name. skipMe reports whether the calling client is spared. msg is an error reply, or empty.
func ParseKill(words [][]byte, known func(user string) bool) (f Filter, skipMe bool, msg string) {
	skipMe = true
	for ; len(words) >= 2; words = words[2:] {
		value := string(words[1])
		switch option := words[0]; {
		case word.Is(option, "ID"):
			id, ok := word.Integer(words[1])
			if !ok || id < 1 {
				return f, skipMe, reply.ErrKillID
			}
			f.ids = []int64{id}
		case word.Is(option, "TYPE"):
			if msg := f.setKind(words[1]); msg != "" {
				return f, skipMe, msg
			}
		case word.Is(option, "USER") && !known(value):
			return f, skipMe, "ERR No such user '" + string(word.Quote(words[1])) + "'"
		case word.Is(option, "USER"):
			f.user = &value
		case word.Is(option, "ADDR"):
			f.addr = &value
		case word.Is(option, "LADDR"):
			f.laddr = &value
		case word.Is(option, "SKIPME") && word.Is(words[1], "YES"):
			skipMe = true
		case word.Is(option, "SKIPME") && word.Is(words[1], "NO"):
			skipMe = false
		default:
			return f, skipMe, reply.ErrSyntax
		}
	}
	if len(words) > 0 {
		return f, skipMe, reply.ErrSyntax
	}
	return f, skipMe, ""
}

// setKind restricts the filter to a type of clients. It returns an error reply, or "".
func (f *Filter) setKind(w []byte) string {
	switch {
	case word.Is(w, "NORMAL"):
		f.kind = "normal"
	case word.Is(w, "PUBSUB"):
		f.kind = "pubsub"
	case word.Is(w, "MASTER"), word.Is(w, "REPLICA"), word.Is(w, "SLAVE"):
		f.kind = "none" // rlproxy has no such clients
	default:
		return "ERR Unknown client type '" + string(word.Quote(w)) + "'"
	}
	return ""
}
