package envoy

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// run runs the command with files of testdata. It returns the exit code and the output.
func run(args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = Run(args, func(name string) (io.ReadCloser, error) { return os.Open(filepath.Join("testdata", name)) }, &out, &errs)
	return code, out.String(), errs.String()
}

func TestExamplesAreImportedAsInTheGoldenFiles(t *testing.T) {
	for name, args := range map[string][]string{
		"store":    {"store.yaml"},
		"letters":  {"letters.yaml", "shared.yaml"},
		"partly":   {"partly.yaml"},
		"commands": {"--format", "commands", "letters.yaml", "--algorithm=slide"},
		"counter":  {"--algorithm", "counter", "shared.yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := run(args...)
			got := fmt.Sprintf("$ rlproxy import %s\n%sexit code %d\n--\n%s", strings.Join(args, " "), stderr, code, stdout)
			golden := filepath.Join("testdata", name+".golden")
			if *update {
				require.NoError(t, os.WriteFile(golden, []byte(got), 0o600))
			}
			want, err := os.ReadFile(golden)
			require.NoError(t, err)
			require.Equal(t, string(want), got)
		})
	}
}

// What is written may be kept for long, or shown to others.
func TestThePasswordOfAURLIsNotWritten(t *testing.T) {
	var out, errs bytes.Buffer
	code := Run([]string{"https://user:hush@host/store.yaml"}, func(string) (io.ReadCloser, error) {
		return os.Open(filepath.Join("testdata", "partly.yaml"))
	}, &out, &errs)
	require.Equal(t, 1, code)
	require.Contains(t, out.String(), "user:xxxxx@host/store.yaml")
	require.NotContains(t, out.String()+errs.String(), "hush")
}

// The example of docs/policies.md is imported as that page says.
func TestDocumentedExampleIsImportedAsThePageSays(t *testing.T) {
	page, err := os.ReadFile("../../docs/policies.md")
	require.NoError(t, err)
	_, rest, ok := strings.Cut(string(page), "```yaml\ndomain: shop\n")
	require.True(t, ok)
	configuration, rest, _ := strings.Cut(rest, "```\n")
	_, rest, _ = strings.Cut(rest, "```\n")
	want, _, _ := strings.Cut(rest, "```\n")
	im, err := readText("domain: shop\n" + configuration)
	require.NoError(t, err)
	require.Empty(t, im.Remarks)
	require.Greater(t, len(want), 100)
	require.True(t, strings.HasSuffix(im.Lines(), "#\n"+want), im.Lines())
}

func TestExitCodesSayWhetherEverythingWasCarriedOver(t *testing.T) {
	for _, c := range []struct {
		args   string
		code   int
		stderr string
	}{
		{"store.yaml", 0, ""},
		{"--help", 0, ""},
		{"store.yaml -h", 0, ""},
		{"partly.yaml", 1, "partly.yaml:16: detailed_metric is not carried over"},
		{"", 2, "rlproxy import: no file was given; see rlproxy import --help"},
		{"--algorithm slide", 2, "rlproxy import: no file was given"},
		{"missing.yaml", 2, "missing.yaml: no such file or directory"},
		{"store.yaml missing.yaml", 2, "missing.yaml: no such file or directory"},
		{"--format json store.yaml", 2, `--format must be lines or commands, not "json"`},
		{"--algorithm token store.yaml", 2, `--algorithm must be fixed, slide or counter, not "token"`},
		{"--sep x store.yaml", 2, "flag provided but not defined: -sep"},
		{"letters.yaml letters.yaml", 2, "letters.yaml:5: the same key and value as at letters.yaml:5"},
	} {
		code, stdout, stderr := run(strings.Fields(c.args)...)
		require.Equal(t, c.code, code, c.args)
		require.Contains(t, stderr, c.stderr, c.args)
		require.Equal(t, c.code == 2, stdout == "", c.args)
		if c.stderr == "" {
			require.Empty(t, stderr, c.args)
		}
	}
}

func TestHelpNamesEveryOption(t *testing.T) {
	_, stdout, _ := run("--help")
	for _, option := range []string{"--format lines|commands", "--algorithm fixed|slide|counter", "--help, -h", "exit code"} {
		require.Contains(t, stdout, option)
	}
}

type broken struct{}

func (broken) Read([]byte) (int, error)  { return 0, errors.New("the disk is gone") }
func (broken) Close() error              { return nil }
func (broken) Write([]byte) (int, error) { return 0, errors.New("the pipe is gone") }

func TestFailuresToReadAndWriteAreErrors(t *testing.T) {
	var out, errs bytes.Buffer
	require.Equal(t, 2, Run([]string{"a.yaml"}, func(string) (io.ReadCloser, error) { return broken{}, nil }, &out, &errs))
	require.Contains(t, errs.String(), "the disk is gone")
	require.Empty(t, out.String())

	errs.Reset()
	text := "domain: d\ndescriptors: [{key: k, rate_limit: {unlimited: true}}]"
	require.Equal(t, 2, Run([]string{"a.yaml"}, func(string) (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(text)), nil }, broken{}, &errs))
	require.Contains(t, errs.String(), "the pipe is gone")
}
