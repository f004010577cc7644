// Package machine opens log files, and reports which files and folders the process may use.
package machine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// OpenAppend opens the file at path to append to it, and creates it for the owner alone if it does not
// exist. It does not block on a named pipe: if the pipe has no reader, it returns an error. The error names the
// directive that sets path. If path is empty, OpenAppend returns nil.
func OpenAppend(directive, path string) (*os.File, error) {
	return openAppend(directive, path, os.O_CREATE)
}

func openAppend(directive, path string, flags int) (*os.File, error) {
	if path == "" {
		return nil, nil
	}
	f, err := os.OpenFile(path, flags|os.O_APPEND|os.O_WRONLY|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, fmt.Errorf("can't write the %s: %w", directive, err)
	}
	return f, nil
}

// CheckAppend returns the error that OpenAppend would return. It leaves no file behind.
func CheckAppend(directive, path string) error {
	f, err := openAppend(directive, path, 0)
	if errors.Is(err, fs.ErrNotExist) {
		if f, err = openAppend(directive, path, os.O_CREATE|os.O_EXCL); err == nil {
			defer func() { _ = os.Remove(path) }() // it was made here, and is empty
		}
	}
	if f == nil {
		return err
	}
	return f.Close()
}
