package main

import (
	"fmt"
	"runtime/debug"
	"strings"
	"text/tabwriter"
)

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

  rlproxy                                    port 6380, state in this process
  rlproxy --backend redis://127.0.0.1:6379   state on a Redis node
  rlproxy rlproxy.conf --loglevel debug      a file; the command line overrides it

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
