// Package machine opens log files, and reports which files and folders the process may use.
package machine

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// OpenAppend opens the file at path to append to it, and creates it for the owner alone if it does not
// exist. It does not block on a named pipe: if the pipe has no reader, it returns an error.
func OpenAppend(path string) (*os.File, error) { return openAppend(path, os.O_CREATE) }

func openAppend(path string, flags int) (*os.File, error) {
	return os.OpenFile(path, flags|os.O_APPEND|os.O_WRONLY|syscall.O_NONBLOCK, 0o600)
}

// CheckAppend returns the error that OpenAppend would return. It leaves no file behind.
func CheckAppend(path string) error {
	f, err := openAppend(path, 0)
	if errors.Is(err, fs.ErrNotExist) {
		if f, err = openAppend(path, os.O_CREATE|os.O_EXCL); err == nil {
			defer func() { _ = os.Remove(path) }() // it was made here, and is empty
		}
	}
	if err != nil {
		return err
	}
	return f.Close()
}
