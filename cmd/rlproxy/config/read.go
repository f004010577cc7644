package config

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/rlproxy/rlproxy/commands/word"
)

// reader fills a config from files, from the environment and from the command line, in this order. A later
// setting replaces an earlier one. Repeated directives add up within each of the three, but those of the
// environment replace those of the files, and those of the command line replace both.
type reader struct {
	config  *Config
	given   map[string]bool // directives that are set, by their names in lower case
	depth   int             // nesting of include
	cleared map[string]bool // repeated directives set in this place; nil while files are read
}

// maxDepth bounds the nesting of include, so that a cycle is an error.
const maxDepth = 16

func (r *reader) readFile(path string) error {
	b, err := ReadFile(path)
	if err != nil {
		return fmt.Errorf("can't read the configuration: %w", err)
	}
	return r.readText(path, string(b))
}

// ReadFile is os.ReadFile, but an empty pipe is an error: a reload finds the pipe empty that was read at the start.
func ReadFile(path string) ([]byte, error) {
	b, err := os.ReadFile(path)
	if st, noStat := os.Stat(path); err == nil && len(b) == 0 && noStat == nil && st.Mode()&fs.ModeNamedPipe != 0 {
		return nil, fmt.Errorf("%s is an empty pipe; a pipe can be read only once", path)
	}
	return b, err
}

// readText reads directives, one per line. It uses path in errors and to find the
// files that content includes.
func (r *reader) readText(path, content string) error {
	n := 0
	for l := range strings.Lines(content) {
		n++
		l = strings.Trim(l, word.Blanks)
		if l == "" || l[0] == '#' {
			continue
		}
		where := path + ":" + strconv.Itoa(n)
		words, err := word.SplitLine(l)
		if err != nil {
			return fmt.Errorf("%s: %w", where, err)
		}
		if err := r.apply(where, filepath.Dir(path), words[0], words[1:]); err != nil {
			return err
		}
	}
	return nil
}

// readArgs reads --directive value ... from the command line.
func (r *reader) readArgs(args []string) error {
	r.cleared = make(map[string]bool)
	for len(args) > 0 {
		name, ok := strings.CutPrefix(args[0], "--")
		if !ok {
			return fmt.Errorf("command line: %.128q is not a directive: directives begin with --", args[0])
		}
		n := 1 + slices.IndexFunc(args[1:], func(a string) bool { return strings.HasPrefix(a, "--") })
		if n == 0 {
			n = len(args)
		}
		if err := r.apply("command line", ".", name, args[1:n]); err != nil {
			return err
		}
		args = args[n:]
	}
	return nil
}

// apply sets one directive. where is its place, for errors; a relative include
// starts from dir.
func (r *reader) apply(where, dir, name string, words []string) error {
	name = strings.ToLower(name)
	if name == "include" {
		return r.include(where, dir, words)
	}
	d := Find(name)
	if d == nil {
		return fmt.Errorf("%s: unknown directive %.128q; rlproxy --help lists the directives", where, name)
	}
	v := d.value(r.config)
	if rep, ok := v.(repeated); ok && r.cleared != nil && !r.cleared[name] {
		r.cleared[name] = true
		rep.clear()
	}
	if e, ok := v.(explained); ok {
		if err := e.put(words); err != nil {
			return fmt.Errorf("%s: %s: %w", where, name, err)
		}
	} else if !v.set(words) {
		return fmt.Errorf("%s: %s must be %s%s", where, name, v.allowed(), d.got(words))
	}
	r.given[name] = true
	return nil
}

// got returns the end of the error about a setting that is not allowed: the words
// that were given, cut to 128 characters, unless they may be secret.
func (d *Directive) got(words []string) string {
	if d.secret {
		return ""
	}
	return given(words)
}

func given(words []string) string {
	if len(words) == 0 {
		return "; nothing was given"
	}
	return fmt.Sprintf("; it was %.128q", strings.Join(words, " "))
}

// include reads the file that another file or the command line names.
func (r *reader) include(where, dir string, words []string) error {
	path, ok := single(words)
	if !ok || path == "" {
		return fmt.Errorf("%s: include must be one file%s", where, given(words))
	}
	if r.depth == maxDepth {
		return fmt.Errorf("%s: include must not go deeper than %d files", where, maxDepth)
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	r.depth++
	defer func() { r.depth-- }()
	if err := r.readFile(path); err != nil {
		return fmt.Errorf("%s: %w", where, err)
	}
	return nil
}
