//go:build !race

package epoll

import (
	"syscall"
	"unsafe"
)

// wait returns the pending events. It does not block, so Go's scheduler need not be told.
func wait(fd uintptr, events []syscall.EpollEvent) (int, error) {
	n, _, err := syscall.RawSyscall6(syscall.SYS_EPOLL_PWAIT, fd, uintptr(unsafe.Pointer(unsafe.SliceData(events))), uintptr(len(events)), 0, 0, 0) //nolint:gosec // G103: the kernel gets the slice as it is
	if err != 0 {
		return 0, err
	}
	return int(n), nil
}
