//go:build !race && !386

package sockio

import (
	"syscall"
	"unsafe"
)

func read(fd uintptr, p []byte) (int, error) { return call(syscall.SYS_READ, fd, p) }

func write(fd uintptr, p []byte) (int, error) { return call(syscall.SYS_WRITE, fd, p) }

// call makes a raw system call, without notifying Go's scheduler. It must not block.
func call(number, fd uintptr, p []byte) (int, error) {
	//nolint:gosec // G103: the kernel gets the slice as it is
	n, _, err := syscall.RawSyscall(number, fd, uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)))
	if err != 0 {
		return 0, err
	}
	return int(n), nil
}

// empty reports whether nothing has arrived, not even the end of the stream.
func empty(fd uintptr) bool {
	var b byte
	//nolint:gosec // G103: the kernel gets the byte as it is
	_, _, err := syscall.RawSyscall6(syscall.SYS_RECVFROM, fd, uintptr(unsafe.Pointer(&b)), 1,
		syscall.MSG_PEEK|syscall.MSG_DONTWAIT, 0, 0)
	return err == syscall.EAGAIN
}

// yield gives the core to another thread if one waits for it.
func yield() { _, _, _ = syscall.RawSyscall(syscall.SYS_SCHED_YIELD, 0, 0, 0) }
