package store

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// newFile returns a file of that name in a folder of its own.
func newFile(t *testing.T, name string) file { return file(filepath.Join(t.TempDir(), name)) }

func TestFileIsReplacedOnlyIfItIsUnchangedSinceItWasRead(t *testing.T) {
	ctx := context.Background()
	f := newFile(t, "policies")
	line, err := f.line(ctx)
	require.NoError(t, err)
	require.Empty(t, line, "there is no file")

	one, whole := record{1, "a\n"}.encode()
	done, err := f.replace(ctx, "", whole)
	require.NoError(t, err)
	require.True(t, done)
	two, next := record{2, "b\n"}.encode()
	done, err = f.replace(ctx, "", next)
	require.NoError(t, err)
	require.False(t, done, "the file was changed first")
	done, err = f.replace(ctx, one, next)
	require.NoError(t, err)
	require.True(t, done)

	line, err = f.line(ctx)
	require.NoError(t, err)
	require.Equal(t, two, line)
	stored, err := f.load(ctx)
	require.NoError(t, err)
	require.Equal(t, next, stored)
	st, err := os.Stat(f.name())
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), st.Mode())
}

func TestFileThatCannotBeReplacedStaysAsItIs(t *testing.T) {
	ctx := context.Background()
	f := newFile(t, strings.Repeat("x", 255)) // the name of a file beside it would be too long
	one, whole := record{1, "a\n"}.encode()
	require.NoError(t, os.WriteFile(f.name(), whole, 0o600))
	_, next := record{2, "b\n"}.encode()
	_, err := f.replace(ctx, one, next)
	require.ErrorContains(t, err, "file name too long")
	stored, err := f.load(ctx)
	require.NoError(t, err)
	require.Equal(t, whole, stored)
}

// The file that a symbolic link leads to is replaced, not the link. No other file stays behind.
func TestFileBehindASymbolicLinkIsReplaced(t *testing.T) {
	ctx := context.Background()
	f, target := newFile(t, "policies"), newFile(t, "real")
	require.NoError(t, os.WriteFile(target.name(), nil, 0o644)) // #nosec G306 -- the mode matters
	require.NoError(t, os.Symlink(target.name(), f.name()))
	_, whole := record{1, "a\n"}.encode()
	done, err := f.replace(ctx, "", whole)
	require.NoError(t, err)
	require.True(t, done)
	link, err := os.Readlink(f.name())
	require.NoError(t, err)
	require.Equal(t, target.name(), link)
	stored, err := target.load(ctx)
	require.NoError(t, err)
	require.Equal(t, whole, stored)
	st, err := os.Stat(target.name())
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), st.Mode())
	files, err := os.ReadDir(filepath.Dir(target.name()))
	require.NoError(t, err)
	require.Len(t, files, 1)
}

// Of two processes with the same file, one gets ahead of the other, and neither fails.
func TestFileOfTwoProcesses(t *testing.T) {
	f := newFile(t, "policies")
	_, whole := record{1, "a\n"}.encode()
	var done sync.WaitGroup
	for range 2 {
		other := f
		done.Go(func() {
			for range 100 {
				line, err := other.line(t.Context())
				if err == nil {
					_, err = other.replace(t.Context(), line, whole)
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	done.Wait()
	files, err := os.ReadDir(filepath.Dir(f.name()))
	require.NoError(t, err)
	require.Len(t, files, 1)
}

func TestFileThatIsAPipeIsAnError(t *testing.T) {
	f := newFile(t, "pipe") // without a writer
	require.NoError(t, syscall.Mkfifo(f.name(), 0o600))
	_, err := f.line(t.Context())
	require.EqualError(t, err, f.name()+" is a named pipe")
	done, err := f.replace(t.Context(), "", nil)
	require.EqualError(t, err, f.name()+" is a named pipe")
	require.False(t, done)
}
