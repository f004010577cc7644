//go:build !linux

package sockio

import "syscall"

// Queued returns 0 twice: what the system holds for a connection is unknown.
func Queued(syscall.RawConn) (received, written int64) { return 0, 0 }
