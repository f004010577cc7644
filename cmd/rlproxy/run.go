package main

import (
	"context"
	"fmt"
	"io"
	"runtime/debug"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/rlproxy/rlproxy/commands"
)

// run does what the arguments ask for. With --help, --version and --check it returns
// at once, else when ctx is cancelled and the clients are answered.
func run(ctx context.Context, args []string, stdout io.Writer) error {
	alone := ""
	if len(args) == 1 {
		alone = args[0]
	}
	switch {
	case slices.Contains(args, "--help") || alone == "-h":
		_, err := io.WriteString(stdout, usage())
		return err
	case slices.Contains(args, "--version") || alone == "-v":
		_, err := fmt.Fprintln(stdout, "rlproxy "+commands.Version+" ("+built()+")")
		return err
	}
	isCheck := func(a string) bool { return a == "--check" }
	check := slices.ContainsFunc(args, isCheck)
	args = slices.DeleteFunc(slices.Clone(args), isCheck)
	if check {
		return runCheck(args, stdout)
	}
	return serve(ctx, func() (*config, error) { return load(args) }, stdout)
}

// load reads the configuration that the arguments describe.
func load(args []string) (*config, error) {
	r := reader{config: newConfig(), given: make(map[string]bool)}
	for len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		if err := r.readFile(args[0]); err != nil {
			return nil, err
		}
		args = args[1:]
	}
	if err := r.readArgs(args); err != nil {
		return nil, err
	}
	if err := r.config.conflict(r.given); err != nil {
		return nil, err
	}
	return r.config, nil
}

// built returns what is known of this build: its version as the Go command determined it,
// by the version that was installed or by the commit of the repository, and Go's version.
func built() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	return info.Main.Version + ", " + info.GoVersion
}

// usage returns the text of --help.
func usage() string {
	var b strings.Builder
	b.WriteString(`rlproxy is a rate-limiting daemon that any Redis client can talk to.

usage: rlproxy [file.conf ...] [--directive value ...] [--check]
       rlproxy import --help

  rlproxy                                    port 6380, state in this process
  rlproxy --backend redis://127.0.0.1:6379   state on a Redis node
  rlproxy rlproxy.conf --loglevel debug      a file; the command line overrides it
  rlproxy import gateway.yaml                policies from a file of envoyproxy/ratelimit

  --check         check the configuration and exit
  --version, -v   print the version and exit
  --help, -h      print this help and exit

directives, in a file or after -- on the command line, with their defaults:

`)
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, d := range directives {
		setting := d.preset
		if setting == "" {
			setting = d.hint
		}
		_, _ = fmt.Fprintf(w, "  %s\t%s\t%s\n", d.name, setting, d.doc) // b never fails
	}
	_ = w.Flush() // b never fails
	return b.String()
}
