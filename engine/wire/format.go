package wire

// format says how a packed message is packed, as in lua/messages.lua, which has the same formats under the same names:
// after a >, B is an integer of 1 byte, I one of as many bytes as follow it, and c a text of that size.
type format string

const (
	formatID      format = ">Bc2c14"
	formatHOLD    format = ">I5B"
	formatSETTLE  format = ">Bc2c14I6"
	formatSETTLED format = ">BI6I6I6I3"
	formatRENEW   format = ">c2c14I5"
	formatRENEWED format = ">BI3"
)

// next returns the letter and the size of the first value of a format, and the format of the others.
func (f format) next() (letter byte, size int, rest format) {
	letter, rest = f[0], f[1:]
	for rest != "" && rest[0] >= '0' && rest[0] <= '9' {
		size, rest = 10*size+int(rest[0]-'0'), rest[1:]
	}
	return letter, max(size, 1), rest
}

// append appends values: text has all texts, one after the other.
func (f format) append(b, text []byte, integers ...int64) []byte {
	for rest := f[1:]; rest != ""; {
		var letter byte
		var size int
		if letter, size, rest = rest.next(); letter == 'c' {
			b, text = append(b, text[:size]...), text[size:]
		} else {
			b, integers = appendUint(b, integers[0], size), integers[1:]
		}
	}
	return b
}

// packed reads integers of a format.
func (r *reader) packed(f format, into ...*int64) {
	for rest := f[1:]; rest != ""; into = into[1:] {
		var size int
		_, size, rest = rest.next()
		*into[0] = r.uint(size)
	}
}
