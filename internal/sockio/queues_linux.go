package sockio

import (
	"syscall"
	"unsafe"
)

// Queued returns how many bytes the system holds for a connection: those that were received and not read, and those
// that were written and that the peer has not taken. Any goroutine may call it. What is unknown is 0, as is everything
// if raw is nil.
func Queued(raw syscall.RawConn) (received, written int64) {
	if raw != nil {
		_ = raw.Control(func(fd uintptr) { // fails if the connection is closed: then both stay 0
			received, written = queue(fd, syscall.TIOCINQ), queue(fd, syscall.TIOCOUTQ)
		})
	}
	return received, written
}

// queue asks for the length of a queue of a socket.
func queue(fd, which uintptr) int64 {
	var n int32
	//nolint:gosec // G103: the kernel writes an int
	if _, _, err := syscall.Syscall(syscall.SYS_IOCTL, fd, which, uintptr(unsafe.Pointer(&n))); err != 0 {
		return 0
	}
	return int64(n)
}
