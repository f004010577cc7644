//go:build unix

package resp

import (
	"io"
	"net"
	"syscall"
)

// rawConn returns access to conn's descriptor, or nil if it has none, as under TLS.
func rawConn(conn net.Conn) syscall.RawConn {
	sc, ok := conn.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return nil
	}
	return raw
}

// readNow reads what has arrived. It returns false if nothing has.
func readNow(fd uintptr, p []byte) (int, bool, error) {
	for {
		n, err := syscall.Read(int(fd), p)
		switch {
		case err == syscall.EINTR:
			continue
		case err == syscall.EAGAIN:
			return 0, false, nil
		case err != nil:
			return 0, true, err
		case n == 0:
			return 0, true, io.EOF
		}
		return n, true, nil
	}
}
