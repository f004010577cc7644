package ratelimit

import (
	"slices"
	"strconv"

	"github.com/rlproxy/rlproxy/commands/reply"
	"github.com/rlproxy/rlproxy/commands/word"
)

// The errors about the words of a command. Each begins with a text of package reply, on which clients may match, and
// ends with what was given. Words are quoted by word.Literal, so that no client's bytes end a reply or a line of a log.

// errPolicy is the error about a FAIL policy that does not exist.
const errPolicy = reply.ErrSyntax + ": FAIL must be OPEN, CLOSED, LOCAL or ERROR"

// wrong returns an error that consists of text and the rejected word.
func wrong(text string, w []byte) string {
	return text + "; it was " + word.Literal(w)
}

// keyError returns the error about a key of the wrong length.
func keyError(key []byte) string {
	return reply.ErrKey + "; it had " + strconv.Itoa(len(key))
}

// noWindow returns the error about a limit at the end, or before an option.
func noWindow(most []byte) string {
	return reply.ErrSyntax + ": limit " + string(most) + " has no window"
}

// tooMany returns the error about one more limit than a command may have.
func tooMany(most []byte) string {
	return reply.ErrWindows + "; the limit of another was " + word.Literal(most)
}

// duplicate returns the error about two windows of the same length.
func duplicate(first, second []byte) string {
	return reply.ErrDuplicate + ": " + string(first) + " and " + string(second) + " are the same"
}

// unknownOption returns the error about a word that is not an option of the command. It lists what may stand there: the
// known options that were not seen yet and, before all options of a command with pairs, another limit.
func unknownOption(w []byte, known, seen option, pairs bool) string {
	var expected []string
	for _, o := range optionNames {
		if known&^seen&o.option != 0 {
			expected = append(expected, o.name)
		}
	}
	if pairs && seen == 0 {
		expected = append(expected, "another limit")
	}
	return reply.UnknownOption(w, expected)
}

// notAlone returns the error about an option that a multi-key request cannot have.
func notAlone(o option) string {
	return reply.ErrSyntax + ": " + o.String() + " cannot be used with AND"
}

// idError returns the error about an id of the wrong length.
func idError(id []byte) string {
	return reply.ErrHoldID + "; it had " + strconv.Itoa(len(id))
}

// shortTTL returns the error about a lease that is tied to a connection and would end too soon.
func shortTTL(ttl int64) string {
	return reply.ErrConnTTL + "; it was " + strconv.FormatInt(ttl, 10) + "ms"
}

// tooFine returns the error about more buckets than a window has milliseconds.
func tooFine(buckets, length int64) string {
	return reply.ErrFine + "; buckets was " + strconv.FormatInt(buckets,
		10) + ", the window " + strconv.FormatInt(length, 10) + "ms"
}

// tooCostly returns the error about a cost above a limit.
func tooCostly(cost, most int64) string {
	return reply.ErrTooCostly + "; cost was " + strconv.FormatInt(cost, 10) + ", limit " + strconv.FormatInt(most, 10)
}

// String returns the name of a single option.
func (o option) String() string {
	return optionNames[slices.IndexFunc(optionNames, func(n optionName) bool { return n.option == o })].name
}
