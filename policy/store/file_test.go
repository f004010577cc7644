package store

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rlproxy/rlproxy/policy"
	"github.com/stretchr/testify/require"
)

// newFile returns a file of that name in a folder of its own.
func newFile(t *testing.T, name string) *file {
	return &file{filepath.Join(t.TempDir(), name), slog.New(slog.DiscardHandler), syncFolder}
}

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
	st, err := os.Stat(f.path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), st.Mode())
}

func TestFileThatCannotBeReplacedStaysAsItIs(t *testing.T) {
	ctx := context.Background()
	f := newFile(t, strings.Repeat("x", 255)) // the name of a file beside it would be too long
	one, whole := record{1, "a\n"}.encode()
	require.NoError(t, os.WriteFile(f.path, whole, 0o600))
	_, next := record{2, "b\n"}.encode()
	_, err := f.replace(ctx, one, next)
	require.ErrorContains(t, err, "file name too long")
	stored, err := f.load(ctx)
	require.NoError(t, err)
	require.Equal(t, whole, stored)
}

// A change that was stored takes effect, even if a crash of the machine may undo it.
func TestFileInAFolderThatCannotBeSynced(t *testing.T) {
	p := new(proxy)
	p.Store = newStore(nil, filepath.Join(t.TempDir(), "policies"), new(policy.Catalog), slog.New(slog.NewTextHandler(&p.log, nil)))
	p.own.(*file).sync = func(string) error { return errors.New("permission denied") }
	require.Empty(t, p.set("a SLIDE 5 60"))
	require.Equal(t, "1 policy a SLIDE 5 1m;", p.inEffect())
	require.Contains(t, p.log.String(), `msg="cannot sync the folder of policy-file: `)
	require.Contains(t, p.log.String(), `why="permission denied"`)
}

// The file that a symbolic link leads to is replaced, not the link. No other file stays behind.
func TestFileBehindASymbolicLinkIsReplaced(t *testing.T) {
	ctx := context.Background()
	f, target := newFile(t, "policies"), newFile(t, "real")
	require.NoError(t, os.WriteFile(target.path, nil, 0o644)) // #nosec G306 -- the mode matters
	require.NoError(t, os.Symlink(target.path, f.path))
	_, whole := record{1, "a\n"}.encode()
	done, err := f.replace(ctx, "", whole)
	require.NoError(t, err)
	require.True(t, done)
	link, err := os.Readlink(f.path)
	require.NoError(t, err)
	require.Equal(t, target.path, link)
	stored, err := target.load(ctx)
	require.NoError(t, err)
	require.Equal(t, whole, stored)
	st, err := os.Stat(target.path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), st.Mode())
	files, err := os.ReadDir(filepath.Dir(target.path))
	require.NoError(t, err)
	require.Len(t, files, 1)
}

// Of two processes with the same file, one gets ahead of the other, and neither fails.
func TestFileOfTwoProcesses(t *testing.T) {
	f := newFile(t, "policies")
	_, whole := record{1, "a\n"}.encode()
	var done sync.WaitGroup
	for range 2 {
		other := *f
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
	files, err := os.ReadDir(filepath.Dir(f.path))
	require.NoError(t, err)
	require.Len(t, files, 1)
}

func TestFileThatIsAPipeIsAnError(t *testing.T) {
	f := newFile(t, "pipe") // without a writer
	require.NoError(t, syscall.Mkfifo(f.path, 0o600))
	_, err := f.line(t.Context())
	require.EqualError(t, err, f.path+" is a named pipe")
	done, err := f.replace(t.Context(), "", nil)
	require.EqualError(t, err, f.path+" is a named pipe")
	require.False(t, done)
}

// A crash in the middle of a write leaves a file that is not finished. The next write removes it, unless it is so young
// that another process may be writing it.
func TestFilesThatCrashesLeftAreRemoved(t *testing.T) {
	f := newFile(t, "policies")
	_, whole := record{1, "a\n"}.encode()
	old, err := write(f.path, whole[:5])
	require.NoError(t, err)
	hour := time.Now().Add(-time.Hour)
	require.NoError(t, os.Chtimes(old, hour, hour))
	others := []string{f.path + ".old", filepath.Join(filepath.Dir(f.path), "other"+unfinished+"1")}
	for _, path := range others {
		require.NoError(t, os.WriteFile(path, nil, 0o600))
		require.NoError(t, os.Chtimes(path, hour, hour))
	}
	young, err := write(f.path, whole[:5])
	require.NoError(t, err)
	done, err := f.replace(t.Context(), "", whole)
	require.NoError(t, err)
	require.True(t, done)
	files, err := filepath.Glob(filepath.Dir(f.path) + "/*")
	require.NoError(t, err)
	require.ElementsMatch(t, append(others, young, f.path), files)
}
