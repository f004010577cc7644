//go:build linux && race

package epoll

import "syscall"

// wait fills events with pending events and returns their number. It uses package syscall, whose
// calls tell the race detector what happened before what.
func wait(fd uintptr, events []syscall.EpollEvent) (int, error) {
	return syscall.EpollWait(int(fd), events, 0)
}
