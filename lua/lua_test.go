package lua

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFold(t *testing.T) {
	require.Equal(t, "\n\ncall('GETRANGE', 2, '1023')\n  local THREE = 3\nreturn ONE_MORE",
		fold("local ONE, TWO = 1, 2 -- numbers\nlocal PREFIX = '1023'\ncall('GETRANGE', TWO, PREFIX)\n  local THREE = 3\nreturn ONE_MORE"))
}

// A constant's name has one value in all scripts, and stands in no string.
func TestConstantsAreSafeToFold(t *testing.T) {
	entries, err := files.ReadDir(".")
	require.NoError(t, err)
	lines, values := map[string]string{}, map[string]string{}
	var sources []string
	for _, e := range entries {
		file, err := files.ReadFile(e.Name())
		require.NoError(t, err)
		source := string(file)
		sources = append(sources, source)
		for _, line := range constant.FindAllStringSubmatch(source, -1) {
			literals := strings.Split(line[2], ", ")
			names := strings.Split(line[1], ", ")
			require.Len(t, literals, len(names), line[0])
			for i, name := range names {
				require.NotContains(t, values, name, "%s: %s, and %s", e.Name(), line[0], lines[name])
				values[name], lines[name] = literals[i], line[0]
			}
		}
	}
	require.NotEmpty(t, values)
	quoted := regexp.MustCompile(`(?m)'[^'\n]*'`)
	comment := regexp.MustCompile(`(?m)--.*$`)
	for _, source := range sources {
		for _, s := range quoted.FindAllString(comment.ReplaceAllString(source, ""), -1) {
			for _, w := range word.FindAllString(s, -1) {
				require.NotContains(t, values, w, s)
			}
		}
	}
}
