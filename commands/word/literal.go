package word

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// Literal returns a client's word as an error repeats it: in single quotes, with Go's escapes for what is not
// printable, and cut to Quoted bytes. What was cut off shows as the size of the whole word.
func Literal(b []byte) string {
	n := min(len(b), Quoted)
	for n < len(b) && n > Quoted-utf8.UTFMax && !utf8.RuneStart(b[n]) {
		n-- // a rune is cut off whole
	}
	s := strconv.Quote(string(b[:n]))
	s = "'" + singleQuotes.Replace(s[1:len(s)-1]) + "'"
	if n < len(b) {
		s += "... (" + strconv.Itoa(len(b)) + " bytes)"
	}
	return s
}

// singleQuotes turns the inside of a string in double quotes into that of one in single quotes.
var singleQuotes = strings.NewReplacer(`\\`, `\\`, `\"`, `"`, `'`, `\'`)
