package store

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFileIsReplacedOnlyIfItIsUnchangedSinceItWasRead(t *testing.T) {
	ctx := context.Background()
	f := file(filepath.Join(t.TempDir(), "policies"))
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
	st, err := os.Stat(string(f))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), st.Mode())
}

func TestFileThatCannotBeReplacedStaysAsItIs(t *testing.T) {
	ctx := context.Background()
	folder := t.TempDir()
	f := file(filepath.Join(folder, "policies"))
	one, whole := record{1, "a\n"}.encode()
	_, err := f.replace(ctx, "", whole)
	require.NoError(t, err)

	// A temporary file that a crash has left is removed, even if it is a link. A folder in its
	// place is an error.
	other := filepath.Join(folder, "other")
	require.NoError(t, os.WriteFile(other, []byte("somebody's"), 0o644)) // #nosec G306 -- the mode matters
	require.NoError(t, os.Symlink(other, string(f)+".new"))
	_, next := record{2, "b\n"}.encode()
	done, err := f.replace(ctx, one, next)
	require.NoError(t, err)
	require.True(t, done)
	st, err := os.Lstat(string(f))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), st.Mode())
	text, err := os.ReadFile(other)
	require.NoError(t, err)
	require.Equal(t, "somebody's", string(text))
	require.NoError(t, os.MkdirAll(string(f)+".new/inside", 0o700))
	_, err = f.replace(ctx, firstLine(next), whole)
	require.ErrorContains(t, err, "policies.new: directory not empty")
	stored, err := f.load(ctx)
	require.NoError(t, err)
	require.Equal(t, next, stored)
}
