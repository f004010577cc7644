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
	r, err := os.Open(string(f))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer r.Close() //nolint:errcheck // nothing was written
	return io.ReadAll(io.LimitReader(r, n))
}

// replace writes a new file and renames it, so that a crash leaves the old one or the new one.
func (f file) replace(ctx context.Context, was string, whole []byte) (bool, error) {
	if line, err := f.line(ctx); err != nil || line != was {
		return false, err
	}
	next := string(f) + ".new"
	if err := os.Remove(next); err != nil && !errors.Is(err, fs.ErrNotExist) { // a crash may have left it behind
		return false, err
	}
	if err := write(next, whole); err != nil {
		_ = os.Remove(next) // it is useless, and may not exist
		return false, err
	}
	if err := os.Rename(next, string(f)); err != nil {
		_ = os.Remove(next) // as above
		return false, err
	}
	if err := syncFolder(filepath.Dir(string(f))); err != nil {
		return true, maybeApplied{fmt.Errorf("the file was written, but syncing its folder failed: %w", err)}
	}
	return true, nil
}

// write creates a file that only this user may read. When write returns, the file is on disk.
func write(path string, content []byte) error {
	w, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if _, err = w.Write(content); err == nil {
		err = w.Sync()
	}
	if closed := w.Close(); err == nil {
		err = closed
	}
	return err
}

// syncFolder makes a rename in a folder durable.
func syncFolder(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// memory is a place: this process. It keeps only the first line of the record, because the Book
// has the policies.
type memory string

func (m *memory) name() string                         { return "this process" }
func (m *memory) line(context.Context) (string, error) { return string(*m), nil }
func (m *memory) load(context.Context) ([]byte, error) { return nil, nil }

func (m *memory) replace(_ context.Context, _ string, whole []byte) (bool, error) {
	*m = memory(firstLine(whole))
	return true, nil
}
