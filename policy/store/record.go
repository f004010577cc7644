package store

import (
	"bytes"
	"fmt"

	"github.com/cespare/xxhash/v2"

	"github.com/rlproxy/rlproxy/commands/word"
	"github.com/rlproxy/rlproxy/engine/registry"
	"github.com/rlproxy/rlproxy/policy"
)

// format is the version of the format of records.
const format = 1

const (
	maxLine   = registry.MaxLine // bytes of the first line, with its newline
	maxRecord = maxLine + policy.MaxText
)

// record is what is stored: the policies and their version. Its first line is
//
//	rlproxy-policies <format> <version> <xxhash64 of the text, in hexadecimal digits>
//
// and the text follows. Of two records, the one with the higher version is newer.
type record struct {
	version int64  // number of changes so far, at least 1
	text    string // the policies, as policy.Set.Text returns them
}

// encode returns the first line of the record, and the whole record.
func (r record) encode() (line string, whole []byte) {
	line = header(format, r.version, xxhash.Sum64String(r.text))
	return line, append([]byte(line), r.text...)
}

func header(format int, version int64, sum uint64) string {
	return fmt.Sprintf("rlproxy-policies %d %d %016x\n", format, version, sum)
}

// damage is the error for stored bytes that are not a record of this format.
type damage struct{ error }

func (d damage) Unwrap() error { return d.error }

func damaged(format string, args ...any) error { return damage{fmt.Errorf(format, args...)} }

// firstLine returns the first line of what is stored, with its newline. If there is no newline within maxLine bytes, it
// returns these bytes.
func firstLine(stored []byte) string {
	stored = stored[:min(len(stored), maxLine)]
	if i := bytes.IndexByte(stored, '\n'); i >= 0 {
		stored = stored[:i+1]
	}
	return string(stored)
}

// parseLine returns the version and the checksum in the first line of a record.
func parseLine(line string) (version int64, sum uint64, err error) {
	found := 0
	_, err = fmt.Sscanf(line, "rlproxy-policies %d %d %x\n", &found, &version, &sum)
	switch {
	case found != 0 && found != format:
		return 0, 0, damaged("it has format %d, but this version of rlproxy knows only format %d", found, format)
	case err != nil || found != format || version < 1 || header(found, version, sum) != line:
		return 0, 0, damaged("it begins with %s instead of the first line of stored policies",
			word.Literal([]byte(line)))
	}
	return version, sum, nil
}

// decode decodes what is stored. It returns the record and its first line.
func decode(stored []byte) (r record, line string, err error) {
	line = firstLine(stored)
	version, sum, err := parseLine(line)
	switch {
	case err != nil:
		return r, line, err
	case len(stored)-len(line) > policy.MaxText:
		return r, line, damaged("its text is longer than %d bytes", policy.MaxText)
	}
	r = record{version, string(stored[len(line):])}
	if xxhash.Sum64String(r.text) != sum {
		err = damaged("its text does not match the checksum in its first line")
	}
	return r, line, err
}
