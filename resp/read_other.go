//go:build !unix

package resp

import (
	"net"
	"syscall"
)

// rawConn returns nil: on this system every connection is read with Read.
func rawConn(net.Conn) syscall.RawConn { return nil }

// readNow is never called, since rawConn returns nil.
func readNow(uintptr, []byte) (int, bool, error) { return 0, false, nil }
