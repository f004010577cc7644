//go:build !race

package epoll

import (
	"syscall"
	"unsafe"
)

// wait fills events with pending events and returns their number. It makes a raw system call, without
// notifying Go's scheduler, because it never blocks.
func wait(fd uintptr, events []syscall.EpollEvent) (int, error) {
	//nolint:gosec // G103: the kernel gets the slice as it is
	n, _, err := syscall.RawSyscall6(syscall.SYS_EPOLL_PWAIT, fd, uintptr(unsafe.Pointer(unsafe.SliceData(events))),
		uintptr(len(events)), 0, 0, 0)
	if err != 0 {
		return 0, err
	}
	return int(n), nil
}
