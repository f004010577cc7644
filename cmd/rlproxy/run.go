package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/rlproxy/rlproxy/cmd/rlproxy/config"
	"github.com/rlproxy/rlproxy/commands"
)

// run does what the arguments ask for. With --help, --version, --check and ping it returns
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
	asked := len(args) > 0 && args[0] == "ping"
	if asked {
		args = args[1:]
	}
	isCheck := func(a string) bool { return a == "--check" }
	check := slices.ContainsFunc(args, isCheck)
	args = slices.DeleteFunc(slices.Clone(args), isCheck)
	load := func() (*config.Config, error) { return config.Load(args, os.Environ(), available().share()) }
	switch {
	case asked:
		return ping(ctx, load, stdout)
	case check:
		return runCheck(load, stdout)
	}
	return serve(ctx, load, stdout)
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

func usage() string {
	var b strings.Builder
	b.WriteString(`rlproxy is a rate-limiting daemon that any Redis client can talk to.

usage: rlproxy [file.conf ...] [--directive value ...] [--check]
       rlproxy ping [file.conf ...] [--directive value ...]
       rlproxy import --help
       rlproxy why --help

  rlproxy                                    port 6380, state in this process
  rlproxy --backend redis://127.0.0.1:6379   state on a Redis node
  rlproxy rlproxy.conf --loglevel debug      a file; the command line overrides it
  RLPROXY_PORT=7000 rlproxy rlproxy.conf     the environment overrides the file; so for each directive
  rlproxy ping rlproxy.conf                  exit code 0 if the rlproxy of this configuration answers, else 1
  rlproxy import gateway.yaml                policies from a file of envoyproxy/ratelimit
  rlproxy why tenant:42 --at 03:12 decisions.log*   why a key was denied, from the decision log

  --check         check the configuration and exit
  --version, -v   print the version and exit
  --help, -h      print this help and exit

directives, in a file or after -- on the command line, with their defaults:

`)
	b.WriteString(config.Help())
	return b.String()
}
