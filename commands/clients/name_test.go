package clients

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNamesAreBounded(t *testing.T) {
	long := []byte(strings.Repeat("n", MaxName) + " ")
	longest := long[:MaxName]
	var f Facts
	require.Empty(t, f.SetName(longest))
	require.Empty(t, f.SetInfo([]byte("LIB-NAME"), longest))
	require.Empty(t, f.SetInfo([]byte("lib-ver"), longest))
	set := f
	require.Contains(t, f.SetName(long), "ERR a client name must have at most 512 bytes; it has 513: 'nnn")
	require.Contains(t, f.SetInfo([]byte("Lib-Ver"), long), "ERR lib-ver must have at most 512 bytes; it has 513: 'nnn")
	require.Equal(t, "ERR Lib-Ver cannot contain spaces, newlines or special characters.", f.SetInfo([]byte("Lib-Ver"), []byte("a b")))
	require.Equal(t, set, f)
	require.Equal(t, Facts{Name: string(longest), Lib: string(longest), LibVer: string(longest)}, f)
}
