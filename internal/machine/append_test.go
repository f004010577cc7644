package machine

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// What cannot be written is an error at once, also for a check, which leaves no file.
func TestFilesThatCannotBeWrittenAreErrors(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	pipe := filepath.Join(folder, "pipe")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	for path, want := range map[string]string{
		filepath.Join(folder, "none/log"): "can't write the decision-log: open " + folder + "/none/log: no such file or directory",
		folder:                            "can't write the decision-log: open " + folder + ": is a directory",
		"/dev/null/log":                   "can't write the decision-log: open /dev/null/log: not a directory",
		pipe:                              "can't write the decision-log: open " + pipe + ": no such device or address",
	} {
		_, err := OpenAppend("decision-log", path)
		require.EqualError(t, err, want)
		require.EqualError(t, CheckAppend("decision-log", path), want)
	}
	fresh := filepath.Join(folder, "log")
	require.NoError(t, CheckAppend("decision-log", fresh))
	require.NoFileExists(t, fresh)
	require.NoError(t, os.WriteFile(fresh, []byte("{}\n"), 0o600))
	require.NoError(t, CheckAppend("decision-log", fresh))
	require.FileExists(t, fresh)
	require.NoError(t, CheckAppend("decision-log", ""))
	f, err := OpenAppend("decision-log", "")
	require.NoError(t, err)
	require.Nil(t, f)
}
