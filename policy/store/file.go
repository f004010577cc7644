package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// file is a place: the path of a file.
type file string

func (f file) name() string { return string(f) }

func (f file) line(context.Context) (string, error) {
	b, err := f.head(maxLine)
	return firstLine(b), err
}

func (f file) load(context.Context) ([]byte, error) { return f.head(maxRecord + 1) }

// head returns the first n bytes of the file. If there is no file, it returns nil and no error.
func (f file) head(n int64) ([]byte, error) {
	if st, err := os.Stat(f.name()); err == nil && st.Mode()&fs.ModeNamedPipe != 0 {
		return nil, fmt.Errorf("%s is a named pipe", f) // to open it would wait for a writer
	}
	r, err := os.Open(f.name())
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
func (f file) replace(ctx context.Context, was string, whole []byte) (bool, error) {
	if line, err := f.line(ctx); err != nil || line != was {
		return false, err
	}
	path, err := filepath.EvalSymlinks(f.name())
	if err != nil {
		path = f.name() // there is no file yet
	}
	next, err := write(path, whole)
	if err != nil {
		return false, err
	}
	if err := os.Rename(next, path); err != nil {
		_ = os.Remove(next) // it is useless
		return false, err
	}
	syncFolder(filepath.Dir(path))
	return true, nil
}

// write creates a file beside path, which only this user may read, and returns its path. When write returns, the file
// is on disk. Another process that uses the same path writes another file.
func write(path string, content []byte) (next string, err error) {
	w, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".unfinished-*")
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

// syncFolder makes a rename in a folder durable, if the file system can.
func syncFolder(path string) {
	if d, err := os.Open(path); err == nil {
		_ = errors.Join(d.Sync(), d.Close()) // the file has been replaced all the same
	}
}

// inProcess is a storage: this process. It keeps only the first line of the record: the Catalog has the policies.
type inProcess string

func (m *inProcess) name() string                         { return "this process" }
func (m *inProcess) line(context.Context) (string, error) { return string(*m), nil }
func (m *inProcess) load(context.Context) ([]byte, error) { return nil, nil }

func (m *inProcess) replace(_ context.Context, _ string, whole []byte) (bool, error) {
	*m = inProcess(firstLine(whole))
	return true, nil
}
