//go:build !unix

package resp

import (
	"net"
	"syscall"
)

// rawConn returns nil: here every connection is read in the ordinary way.
func rawConn(net.Conn) syscall.RawConn { return nil }

// readNow is never called, since rawConn gives no descriptor.
func readNow(uintptr, []byte) (int, bool, error) { return 0, false, nil }
