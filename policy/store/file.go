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

// file is a file as a place, by its path.
type file string

func (f file) name() string { return string(f) }

func (f file) line(context.Context) (string, error) {
	b, err := f.head(maxLine)
	return firstLine(b), err
}

func (f file) load(context.Context) ([]byte, error) { return f.head(maxRecord + 1) }

// head returns the first n bytes of the file, none if there is no file.
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
		_ = os.Remove(next) // it is of no use, and may not be there
		return false, err
	}
	if err := os.Rename(next, string(f)); err != nil {
		_ = os.Remove(next) // as above
		return false, err
	}
	if err := syncFolder(filepath.Dir(string(f))); err != nil {
		return true, unsure{fmt.Errorf("it is written, but the folder is not: %w", err)}
	}
	return true, nil
}

// write makes a file that only this user may read, on the disk when write returns.
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

// syncFolder writes the names of a folder's files to the disk.
func syncFolder(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// memory is this process as a place. It keeps only the first line of the record, since the policies
// are in effect.
type memory string

func (m *memory) name() string                         { return "this process" }
func (m *memory) line(context.Context) (string, error) { return string(*m), nil }
func (m *memory) load(context.Context) ([]byte, error) { return nil, nil }

func (m *memory) replace(_ context.Context, _ string, whole []byte) (bool, error) {
	*m = memory(firstLine(whole))
	return true, nil
}
