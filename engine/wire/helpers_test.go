package wire

import (
	"encoding/binary"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/conformance"
	"github.com/rlproxy/rlproxy/engine/limit"
)

// clock is the node's clock in the replies of these tests, in ms.
const clock = conformance.Base

// bytesOf encodes integers, big-endian. Its arguments are size, value, size, value ...
func bytesOf(pairs ...int64) (b []byte) {
	for i := 0; i < len(pairs); i += 2 {
		b = appendUint(b, pairs[i+1], int(pairs[i]))
	}
	return b
}

// join puts parts of a reply together.
func join(parts ...[]byte) string {
	var all []byte
	for _, p := range parts {
		all = append(all, p...)
	}
	return string(all)
}

// usage packs a usage as a node does. room and empty are in ms from clock; a room of 0 means none.
func usage(used, room, empty int64) []byte {
	at := func(ms int64) int64 {
		if ms == 0 {
			return 0
		}
		return clock + ms
	}
	return bytesOf(6, used, 6, at(room), 6, clock+empty)
}

// call returns a call with the requests, all at the shard with this number of their keys.
func call(number int, requests ...engine.Request) *Call {
	c := new(Call)
	for i := range requests {
		if _, ok := c.Add(&requests[i], number); !ok {
			panic("the call is full")
		}
	}
	return c
}

func slide(key string, most int64) engine.Request {
	return conformance.Request(limit.Slide, key, most, 1000)
}

// argsOf returns the words of a call as strings. The number of keys becomes a varint.
func argsOf(args []any) []string {
	var out []string
	for _, a := range args {
		switch a := a.(type) {
		case string:
			out = append(out, a)
		case *string:
			out = append(out, *a)
		case int:
			out = append(out, string(binary.AppendUvarint(nil, uint64(a))))
		}
	}
	return out
}
