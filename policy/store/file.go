package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// file is a place: a file.
type file struct {
	path string
	log  *slog.Logger
	sync func(folder string) error // syncFolder, except in tests
}

func (f *file) name() string { return f.path }

func (f *file) line(context.Context) (string, error) {
	b, err := f.head(maxLine)
	return firstLine(b), err
}

func (f *file) load(context.Context) ([]byte, error) { return f.head(maxRecord + 1) }

// head returns the first n bytes of the file. If there is no file, it returns nil and no error.
func (f *file) head(n int64) ([]byte, error) {
	if st, err := os.Stat(f.path); err == nil && st.Mode()&fs.ModeNamedPipe != 0 {
		return nil, fmt.Errorf("%s is a named pipe", f.path) // to open it would wait for a writer
	}
	r, err := os.Open(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer r.Close() //nolint:errcheck // nothing was written
	return io.ReadAll(io.LimitReader(r, n))
}

// replace writes a new file and renames it, so that a crash leaves the old one or the new one. If the path is a
// symbolic link, the file that it leads to is replaced.
func (f *file) replace(ctx context.Context, was string, whole []byte) (bool, error) {
	if line, err := f.line(ctx); err != nil || line != was {
		return false, err
	}
	path, err := filepath.EvalSymlinks(f.path)
	if err != nil {
		path = f.path // there is no file yet
	}
	next, err := write(path, whole)
	if err != nil {
		return false, err
	}
	if err := os.Rename(next, path); err != nil {
		_ = os.Remove(next) // it is useless
		return false, err
	}
	if err := f.sync(filepath.Dir(path)); err != nil { // the file has been replaced all the same
		f.log.Warn("cannot sync the folder of policy-file: after a crash of this machine, the latest change may be "+
			"lost", "file", f.path, "why", err)
	}
	return true, nil
}

// unfinished follows a file's name in the names of those that are to replace it. Digits follow.
const unfinished = ".unfinished-"

// write creates a file beside path, which only this user may read, and returns its path. When write returns, the file
// is on disk. Another process that uses the same path writes another file.
func write(path string, content []byte) (next string, err error) {
	removeUnfinished(path)
	w, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+unfinished+"*")
	if err != nil {
		return "", err
	}
	if _, err = w.Write(content); err == nil {
		err = w.Sync()
	}
	if err = errors.Join(err, w.Close()); err != nil {
		_ = os.Remove(w.Name()) // it is useless
	}
	return w.Name(), err
}

// removeUnfinished removes the files that crashes in the middle of write have left. One that was written to in the last
// minute may be in use by another process.
func removeUnfinished(path string) {
	entries, _ := os.ReadDir(filepath.Dir(path)) // without them, write fails or nothing is removed
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), filepath.Base(path)+unfinished) {
			continue
		}
		if st, err := e.Info(); err == nil && time.Since(st.ModTime()) > time.Minute {
			_ = os.Remove(filepath.Join(filepath.Dir(path), e.Name())) // the next write tries again
		}
	}
}

// syncFolder makes a rename in a folder durable.
func syncFolder(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// memory is a place: this process. It keeps only the first line of the record, because the Catalog has the policies.
type memory string

func (m *memory) name() string                         { return "this process" }
func (m *memory) line(context.Context) (string, error) { return string(*m), nil }
func (m *memory) load(context.Context) ([]byte, error) { return nil, nil }

func (m *memory) replace(_ context.Context, _ string, whole []byte) (bool, error) {
	*m = memory(firstLine(whole))
	return true, nil
}
