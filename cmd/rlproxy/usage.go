package main

import (
	"fmt"
	"runtime/debug"
	"strings"
	"text/tabwriter"
)

// release is the version that the linker sets; empty in other builds.
var release string

// version names this build.
func version() string {
	if release != "" {
		return release
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}

// usage is the text of --help.
func usage() string {
	var b strings.Builder
	b.WriteString(`rlproxy answers rate-limit questions from any Redis client.

usage: rlproxy [file.conf] [--directive value ...] [--check]

  rlproxy                                    port 6380, state in this process
  rlproxy --backend redis://127.0.0.1:6379   state on a Redis node
  rlproxy rlproxy.conf --loglevel debug      a file; the command line has the last word

  --check         say whether the configuration is valid, and exit
  --version, -v   say which version this is, and exit
  --help, -h      print this, and exit

directives, as in a file or after -- on the command line, with their defaults:

`)
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, d := range directives {
		setting := d.preset
		if setting == "" {
			setting = d.hint
		}
		_, _ = fmt.Fprintf(w, "  %s\t%s\t%s\n", d.name, setting, d.doc) // as below
	}
	_ = w.Flush() // a strings.Builder takes everything
	return b.String()
}
