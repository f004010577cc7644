package why

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/rlproxy/rlproxy/engine/decisionlog"
	"github.com/rlproxy/rlproxy/internal/glob"
	"github.com/rlproxy/rlproxy/internal/login"
)

// most is how many answers are shown.
const most = 100

// answer is a line of a log that answers the question.
type answer struct {
	decisionlog.Line
	at   time.Time // its time
	file string
	raw  []byte
}

// until returns how long the line stands for further denials of the key.
func (a *answer) until() time.Time {
	if a.Event != "denial" {
		return a.at // each has a line, or is one of a sample
	}
	return a.at.Add(max(time.Duration(a.Window)*time.Millisecond, time.Second))
}

// answers are the answers to a question.
type answers struct {
	lines   []answer // sorted by time; the newest
	earlier int      // how many more there were

	leftOut       int64  // denials and answers by FAIL policy that have no line, for the time asked about
	span          span   // of all lines
	nearest       answer // the denial of the key that is nearest to the time asked about
	distance      time.Duration
	other, hashed int // lines of something else; lines with hashed keys
}

// search reads the files.
func (q *question) search(open func(string) (io.ReadCloser, error)) (found answers, err error) {
	for _, name := range q.files {
		f, err := open(name)
		if err != nil {
			return found, err
		}
		err = q.read(name, f, &found)
		if err = errors.Join(err, f.Close()); err != nil {
			return found, fmt.Errorf("%s: %w", login.Hide(name), err)
		}
	}
	found.trim(most)
	return found, nil
}

// read reads a file, which may be compressed.
func (q *question) read(name string, f io.Reader, found *answers) error {
	in := bufio.NewReader(f)
	if magic, _ := in.Peek(2); string(magic) == "\x1f\x8b" {
		text, err := gzip.NewReader(in)
		if err != nil {
			return err
		}
		in = bufio.NewReader(text)
	}
	for {
		line, err := in.ReadBytes('\n')
		if len(bytes.TrimSpace(line)) > 0 {
			q.consider(name, line, found)
		}
		if err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
	}
}

// consider adds a line to found if it answers the question.
func (q *question) consider(name string, line []byte, found *answers) {
	a := answer{file: name, raw: bytes.TrimSpace(line)}
	err := json.Unmarshal(line, &a.Line)
	if err == nil {
		a.at, err = time.Parse(time.RFC3339, a.Time)
	}
	if err != nil {
		found.other++ // or a line that is being written
		return
	}
	found.span.add(a.at)
	if a.Event == "left_out" {
		if q.at.meets(a.at.Add(-time.Minute), a.at) { // it stands behind what was left out
			found.leftOut += a.Count
		}
		return
	}
	if a.KeySHA256 != "" {
		found.hashed++
	}
	if a.Result == "allowed" || !q.about(&a.Line) {
		return
	}
	if q.at.meets(a.at, a.until()) {
		found.lines = append(found.lines, a)
		if len(found.lines) >= 2*most {
			found.trim(most)
		}
		return
	}
	if d := a.at.Sub(q.at.from).Abs(); found.nearest.raw == nil || d < found.distance {
		found.nearest, found.distance = a, d
	}
}

// trim sorts the answers and keeps the newest n.
func (s *answers) trim(n int) {
	slices.SortStableFunc(s.lines, func(a, b answer) int { return a.at.Compare(b.at) })
	if more := len(s.lines) - n; more > 0 {
		s.earlier += more
		s.lines = slices.Delete(s.lines, 0, more)
	}
}

// add extends the span to an instant.
func (s *span) add(t time.Time) {
	if s.from.IsZero() || t.Before(s.from) {
		s.from = t
	}
	if t.After(s.to) {
		s.to = t
	}
}

// about reports whether a line is about the key of the question.
func (q *question) about(l *decisionlog.Line) bool {
	if l.KeySHA256 != "" {
		return l.KeySHA256 == hash(q.key) || l.Policy != "" && l.KeySHA256 == hash(l.Policy+":"+q.key)
	}
	key := l.Key
	if l.KeyBase64 != "" {
		if b, err := base64.StdEncoding.DecodeString(l.KeyBase64); err == nil {
			key = string(b)
		}
	}
	bare := key
	if l.Policy != "" {
		bare = strings.TrimPrefix(key, l.Policy+":")
	}
	if strings.ContainsAny(q.key, "*?") && (glob.Match(q.key, key) || glob.Match(q.key, bare)) {
		return true
	}
	return q.key == key || q.key == bare
}

func hash(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:])
}

// nothing says that no line answers the question, and what that means.
func (q *question) nothing(found *answers) string {
	var b strings.Builder
	fmt.Fprintf(&b, "No denial of %s", q.key)
	if !q.at.always() {
		fmt.Fprintf(&b, " at %s", q.at.from.In(q.zone).Format(form))
	}
	b.WriteString(" is in the log")
	if found.span.from.IsZero() {
		b.WriteString(", which has no lines.")
	} else {
		fmt.Fprintf(&b, ", which has lines from %s to %s.", found.span.from.In(q.zone).Format(form),
			found.span.to.In(q.zone).Format(form))
	}
	if found.nearest.raw != nil {
		fmt.Fprintf(&b, "\nThe nearest one: %s", found.nearest.sentence(q.zone))
	}
	if found.leftOut > 0 {
		fmt.Fprintf(&b, "\n%d lines were left out at that time. One of them may have been about this key.",
			found.leftOut)
	}
	if found.hashed > 0 && strings.ContainsAny(q.key, "*?") {
		b.WriteString("\nThe keys are hashed, so that a pattern finds none: ask for a whole key.")
	}
	if found.other > 0 {
		fmt.Fprintf(&b, "\n%d lines are not those of a decision log.", found.other)
	}
	return b.String()
}

// form is how times are written.
const form = "2006-01-02 15:04:05.000 MST"
