package envoy

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlproxy/rlproxy/commands/word"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/rlproxy/rlproxy/policy"
)

// Any text is refused with an error of one line that begins with the place, or it becomes lines
// that rlproxy accepts, as many commands, and remarks of one line each.
func FuzzImport(f *testing.F) {
	files, err := filepath.Glob("testdata/*.yaml")
	require.NoError(f, err)
	require.NotEmpty(f, files)
	for _, name := range files {
		text, err := os.ReadFile(name)
		require.NoError(f, err)
		f.Add(text)
	}
	for _, text := range []string{
		"domain: \"d\\n\\x00\\\"\\xe9\"\ndescriptors: [{key: \"\\n<|\", value: \"a b\\t\\\"'*\", rate_limit: {unit: day}}]\n",
		top + "- &a {key: a, descriptors: [*a]}\n", top + "- {key: a, <<: {rate_limit: {unlimited: yes}}}\n", "---\n---\n", "a: [", "apiVersion: v1\nkind: ConfigMap\ndata:\n  a: |\n    domain: d\n    descriptors: [{key: a, rate_limit: {unit: day}}]\n  b: \"- x\"\n", "%YAML 1.1\n--- !!map\n? x\n",
		"domain: " + strings.Repeat("long.", 30) + "\ndescriptors:\n- {key: a, rate_limit: {unit: day}}\n- {key: b, rate_limit: {unit: day}}\n",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		im, err := Read([]Input{{"a.yaml", text}}, Options{limit.Counter})
		if err != nil {
			require.NotContains(t, err.Error(), "\n")
			require.Regexp(t, `^(a\.yaml( \(.*\))?(:\d+)?: |there is no limit in |rlproxy would not accept the output: line \d+: )`, err.Error())
			return
		}
		set, err := policy.Parse(im.Lines())
		require.NoError(t, err)
		require.Len(t, set.All(), len(im.Policies))
		require.Equal(t, len(set.All())+set.Overrides(), strings.Count(im.Commands(), "\n"))
		for l := range strings.Lines(im.Commands()) {
			_, err := word.SplitLine(l)
			require.NoError(t, err, l)
		}
		for _, r := range im.Remarks {
			require.Positive(t, r.Line)
			require.NotContains(t, r.Text, "\n")
		}
	})
}
