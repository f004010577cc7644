package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"

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
		c, err := load(args)
		if err != nil {
			return err
		}
		if err := c.missingFolder(); err != nil {
			return err
		}
		if _, err := prepare(c); err != nil {
			return err
		}
		// Opening the engines finds errors across settings, such as a backend named twice.
		eng, err := openEngines(c, slog.New(slog.DiscardHandler))
		if err != nil {
			return err
		}
		if err := eng.close(); err != nil {
			return err
		}
		_, err = fmt.Fprintln(stdout, "configuration is valid")
		return err
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
