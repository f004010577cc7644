// Package reply writes replies to the output of a session, and holds the texts of the errors that several commands
// reply with.
//
// Reading order: reply.go (this file), errors.go, options.go (errors about options), unknown.go (unknown commands).
package reply

import (
	"strconv"

	"github.com/rlproxy/rlproxy/resp"
)

// Writer appends replies to a session's output, in the session's protocol. Output that has
// become large is written before the next string, so that no command has to bound its reply.
type Writer struct{ s *resp.Session }

// To returns the writer of a session.
func To(s *resp.Session) Writer { return Writer{s} }

// Closing reports whether the client is gone, so that the rest of a long reply can be left out.
func (w Writer) Closing() bool { return w.s.Closing() }

// Proto returns the protocol of the session: 2 or 3.
func (w Writer) Proto() int { return w.s.Proto }

// Error appends an error. msg begins with a code.
func (w Writer) Error(msg string) { w.s.Out = resp.AppendError(w.s.Out, msg) }

// OK appends the status OK.
func (w Writer) OK() { w.Status("OK") }

// Status appends a status.
func (w Writer) Status(s string) { w.s.Out = resp.AppendSimple(w.s.Out, s) }

// Int appends an integer.
func (w Writer) Int(n int64) { w.s.Out = resp.AppendInt(w.s.Out, n) }

// Bulk appends a string of bytes.
func (w Writer) Bulk(b []byte) {
	w.s.FlushIfLarge()
	w.s.Out = resp.AppendBulk(w.s.Out, b)
}

// Text appends a string.
func (w Writer) Text(s string) {
	w.s.FlushIfLarge()
	w.s.Out = resp.AppendBulkString(w.s.Out, s)
}

// Texts appends an array of strings.
func (w Writer) Texts(all []string) {
	w.Array(len(all))
	for _, s := range all {
		w.Text(s)
	}
}

// Null appends a null.
func (w Writer) Null() {
	w.s.FlushIfLarge()
	w.s.Out = resp.AppendNull(w.s.Out, w.s.Proto)
}

// Array begins an array of n elements.
func (w Writer) Array(n int) { w.s.Out = resp.AppendArray(w.s.Out, n) }

// Map begins a map, a flat array in RESP2.
func (w Writer) Map(pairs int) { w.s.Out = resp.AppendMap(w.s.Out, w.s.Proto, pairs) }

// Field appends a key of a map and its value.
func (w Writer) Field(key, value string) { w.Text(key); w.Text(value) }

// Message begins a message of n elements to a subscriber, an array in RESP2.
func (w Writer) Message(n int) { w.s.Out = resp.AppendPush(w.s.Out, w.s.Proto, n) }

// Set begins a set of n elements, an array in RESP2.
func (w Writer) Set(n int) {
	if w.s.Proto < 3 {
		w.Array(n)
		return
	}
	w.head('~', n)
}

// Verbatim appends a text for people to read: a verbatim string in RESP3.
func (w Writer) Verbatim(s string) {
	if w.s.Proto < 3 {
		w.Text(s)
		return
	}
	w.head('=', len(s)+len("txt:"))
	w.s.Out = append(w.s.Out, "txt:"...)
	w.s.Out = append(w.s.Out, s...)
	w.s.Out = append(w.s.Out, "\r\n"...)
}

func (w Writer) head(kind byte, n int) {
	w.s.Out = append(w.s.Out, kind)
	w.s.Out = strconv.AppendInt(w.s.Out, int64(n), 10)
	w.s.Out = append(w.s.Out, "\r\n"...)
}

// Statuses appends a set of statuses.
func (w Writer) Statuses(words []string) {
	w.Set(len(words))
	for _, s := range words {
		w.Status(s)
	}
}
