//go:build !linux || race || 386

package sockio

import (
	"runtime"
	"syscall"
)

// Builds with the race detector use package syscall on Linux too, because its calls tell the
// detector what happened before what.

func read(fd uintptr, p []byte) (int, error) { return syscall.Read(int(fd), p) }

func write(fd uintptr, p []byte) (int, error) { return syscall.Write(int(fd), p) }

// yield gives the thread to another goroutine if one waits for it.
func yield() { runtime.Gosched() }

// empty always returns false: whether data has arrived is unknown.
func empty(uintptr) bool { return false }
