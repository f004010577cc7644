//go:build unix

package main

import (
	"math"
	"syscall"
)

// openFiles is how many files this process may have open. Go has raised the limit
// to what the system allows before main began.
func openFiles() int {
	var r syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &r) != nil {
		return math.MaxInt32
	}
	return int(min(uint64(r.Cur), math.MaxInt32)) //nolint:unconvert // signed on some systems
}
