package envoy

import (
	"errors"
	"flag"
	"fmt"
	"io"

	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/rlproxy/rlproxy/internal/login"
)

const usage = `Read configurations of envoyproxy/ratelimit and write policies for rlproxy.

usage: rlproxy import [--format lines|commands] [--algorithm fixed|slide|counter] file.yaml ...

  rlproxy import gateway.yaml > policies.conf
  rlproxy import --format commands gateway.yaml | redis-cli -p 6380

  --format      lines (the default): for a file that rlproxy.conf includes, with comments that say
                which RL.CHECK to send for each descriptor; or commands: RL.POLICY, without comments
  --algorithm   fixed (the default) counts in fixed windows, as envoyproxy/ratelimit does; slide never
                admits more than the limit in any window; counter comes close to that in constant
                memory
  --help, -h    print this help and exit

Files of one domain are merged. What could not be carried over is reported on standard error, with
file and line. The exit code is 0 if everything was carried over, 1 if something was not, and 2 if
nothing was written, because the command line is wrong or a file could not be read.
`

// Run runs "rlproxy import" with args. It returns the exit code.
func Run(args []string, open func(name string) (io.ReadCloser, error), stdout, stderr io.Writer) int {
	im, format, err := parse(args, open)
	if err == nil && format == "commands" {
		_, err = io.WriteString(stdout, im.Commands())
	} else if err == nil {
		_, err = io.WriteString(stdout, im.Lines())
	}
	switch {
	case errors.Is(err, flag.ErrHelp):
		_, _ = io.WriteString(stdout, usage) // an error cannot be reported
		return 0
	case err != nil:
		_, _ = fmt.Fprintln(stderr, "rlproxy import: "+err.Error()) // as above
		return 2
	case len(im.Remarks) == 0:
		return 0
	}
	for _, r := range im.Remarks {
		_, _ = fmt.Fprintf(stderr, "%v: %s\n", r.Position, r.Text) // as above
	}
	return 1
}

// parse parses args and reads the files. It returns the import and the format to write it in.
func parse(args []string, open func(string) (io.ReadCloser, error)) (*Import, string, error) {
	flags := flag.NewFlagSet("import", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	format := flags.String("format", "lines", "")
	algorithm := flags.String("algorithm", "fixed", "")
	var names []string
	for { // options may follow files
		if err := flags.Parse(args); err != nil {
			return nil, "", err
		}
		if flags.NArg() == 0 {
			break
		}
		names, args = append(names, flags.Arg(0)), flags.Args()[1:]
	}
	kind, known := map[string]limit.Kind{"fixed": limit.Fixed, "slide": limit.Slide,
		"counter": limit.Counter}[*algorithm]
	switch {
	case len(names) == 0:
		return nil, "", errors.New("no file was given; see rlproxy import --help")
	case *format != "lines" && *format != "commands":
		return nil, "", fmt.Errorf("--format must be lines or commands, not %q", *format)
	case !known:
		return nil, "", fmt.Errorf("--algorithm must be fixed, slide or counter, not %q", *algorithm)
	}
	var sources []Input
	for _, name := range names {
		text, err := read(name, open)
		if err != nil {
			return nil, "", err
		}
		sources = append(sources, Input{login.Hide(name), text})
	}
	im, err := Read(sources, Options{Algorithm: kind})
	return im, *format, err
}

// read reads a file. Of one that is too large it reads one byte more than maxFile.
func read(name string, open func(string) (io.ReadCloser, error)) ([]byte, error) {
	f, err := open(name)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if closed := f.Close(); err == nil {
		err = closed
	}
	return text, err
}
