// Package why answers from decision logs why a key was denied at some time: rlproxy why.
//
// A log has one line for all denials of a key in a window, at the first of them. So a line answers for every moment
// from its own time until the window has passed.
//
// Reading order: why.go (the command and its options), when.go (the time that is asked about), read.go (which lines
// answer), say.go (the sentence about a line).
package why

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"time"
)

const usage = `usage: rlproxy why KEY [--at TIME] [--zone ZONE] [--json] FILE ...

Says why a key was denied, from the lines of decision logs, also of rotated ones. A FILE may be compressed by gzip,
- is the standard input, and http://127.0.0.1:6381/denials has the newest denials of the proxy with that http-port.

KEY           the client's key, with or without the name of its policy before it, or a pattern with * or ?
--at TIME     03:12, 03:12:30, "2026-11-22 03:12" or an instant as the log has it; a time without a date is the
              latest one that has passed. Without it, all denials of the key, of which the newest 100 are shown
--zone ZONE   of TIME and of the answer, such as Europe/Berlin; else that of this machine
--json        an object for each answer, with the line of the log

The exit code is 0 if there is an answer, 1 if the files have none, and 2 if they cannot be read.
`

// errUsage is the error of wrong arguments.
var errUsage = errors.New("it takes a key and the files of a decision log; see rlproxy why --help")

// question is what is asked.
type question struct {
	key   string
	at    span // the zero span: always
	zone  *time.Location
	json  bool
	files []string
}

// Run answers the question in args and returns the exit code. open opens a file, and now is the time.
func Run(args []string, now time.Time, open func(string) (io.ReadCloser, error), stdout, stderr io.Writer) int {
	q, err := parse(args, now)
	if errors.Is(err, flag.ErrHelp) {
		_, _ = io.WriteString(stdout, usage) // an error cannot be reported
		return 0
	}
	var found answers
	if err == nil {
		found, err = q.search(open)
	}
	if err != nil {
		_, _ = fmt.Fprintln(stderr, "rlproxy why: "+err.Error()) // as above
		return 2
	}
	if len(found.lines) == 0 {
		_, _ = fmt.Fprintln(stderr, q.nothing(&found)) // as above
		return 1
	}
	if found.earlier > 0 {
		_, _ = fmt.Fprintf(stderr, "%d earlier denials are not shown: say --at\n", found.earlier) // as above
	}
	for i := range found.lines {
		if err = q.print(stdout, &found.lines[i]); err != nil {
			return 2
		}
	}
	return 0
}

// parse returns the question in args.
func parse(args []string, now time.Time) (q question, err error) {
	flags := flag.NewFlagSet("why", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	at := flags.String("at", "", "")
	zone := flags.String("zone", "Local", "")
	flags.BoolVar(&q.json, "json", false, "")
	var words []string
	for { // options may follow other words
		if err := flags.Parse(args); err != nil {
			return q, err
		}
		if flags.NArg() == 0 {
			break
		}
		words, args = append(words, flags.Arg(0)), flags.Args()[1:]
	}
	if len(words) < 2 {
		return q, errUsage
	}
	q.key, q.files = words[0], words[1:]
	if q.zone, err = time.LoadLocation(*zone); err != nil {
		return q, err
	}
	if *at != "" {
		q.at, err = moment(*at, now.In(q.zone))
	}
	return q, err
}

// print writes an answer.
func (q *question) print(to io.Writer, a *answer) error {
	text := a.sentence(q.zone)
	if !q.json {
		_, err := fmt.Fprintln(to, text)
		return err
	}
	e := json.NewEncoder(to)
	e.SetEscapeHTML(false)
	return e.Encode(struct {
		Answer string          `json:"answer"`
		File   string          `json:"file"`
		Line   json.RawMessage `json:"line"`
	}{text, a.file, a.raw})
}
