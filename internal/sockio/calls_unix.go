//go:build unix && (!linux || race || 386)

package sockio

import (
	"runtime"
	"syscall"
)

// Builds with the race detector use package syscall on Linux as well, whose calls show the detector
// that bytes were written before they were read.

// usable reports whether descriptors can be used on this system.
const usable = true

func read(fd uintptr, p []byte) (int, error) { return syscall.Read(int(fd), p) }

func write(fd uintptr, p []byte) (int, error) { return syscall.Write(int(fd), p) }

// yield lets something else have the core if it waits for one.
func yield() { runtime.Gosched() }

// empty reports whether nothing has arrived; false: it is not known.
func empty(uintptr) bool { return false }
