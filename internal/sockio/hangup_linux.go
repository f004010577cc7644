package sockio

import (
	"syscall"
	"unsafe"
)

// hungUp reports whether the peer of a socket has closed its side, also if what it has sent before was not read yet.
func hungUp(fd uintptr) bool {
	const (
		readHangup = 0x2000 // POLLRDHUP
		hangup     = 0x10   // POLLHUP, which is reported without being asked for
		broken     = 0x8    // POLLERR, as POLLHUP
	)
	poll := struct {
		fd              int32
		events, revents int16
	}{fd: int32(fd), events: readHangup}
	now := syscall.Timespec{}
	//nolint:gosec // G103: the kernel gets the structs as they are
	n, _, err := syscall.RawSyscall6(syscall.SYS_PPOLL, uintptr(unsafe.Pointer(&poll)), 1,
		uintptr(unsafe.Pointer(&now)), 0, 0, 0)
	return err == 0 && n > 0 && poll.revents&(readHangup|hangup|broken) != 0
}
