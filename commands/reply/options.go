package reply

import "github.com/rlproxy/rlproxy/commands/word"

// UnknownOption returns the error about a word that is none of the options that a command expects there.
func UnknownOption(w []byte, expected []string) string {
	if len(expected) == 0 {
		expected = []string{"nothing more"}
	}
	return ErrSyntax + ": unknown option " + word.Literal(w) + "; expected " + word.List(expected)
}

// OptionTwice returns the error about an option that was given before.
func OptionTwice(name string) string { return ErrSyntax + ": option " + name + " is given twice" }

// OptionWithoutValue returns the error about an option at the end of a command.
func OptionWithoutValue(name string) string { return ErrSyntax + ": option " + name + " has no value" }
