package epoll

import (
	"errors"
	"os"
	"syscall"
)

// once is the most events that one call returns.
const once = 256

// Set is a set of descriptors. One goroutine at a time may Wait; the other methods may be called
// from any.
type Set struct {
	file   *os.File
	raw    syscall.RawConn
	try    func(fd uintptr) bool // poll, as a value that is allocated once
	events [once]syscall.EpollEvent
	n      int   // events that poll has found
	err    error // the error of poll
}

// New returns an empty set.
func New() (*Set, error) {
	fd, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	if err := syscall.SetNonblock(fd, true); err != nil { // package os hands it to Go's poller then
		_ = syscall.Close(fd)
		return nil, os.NewSyscallError("fcntl", err)
	}
	s := &Set{file: os.NewFile(uintptr(fd), "epoll")}
	if s.raw, err = s.file.SyscallConn(); err != nil {
		return nil, errors.Join(err, s.file.Close())
	}
	s.try = s.poll
	return s, nil
}

// Add adds a descriptor under a number. If it can be read already, that is its first event.
func (s *Set) Add(conn syscall.RawConn, id int64) error {
	return s.control(conn, syscall.EPOLL_CTL_ADD, &syscall.EpollEvent{
		Events: syscall.EPOLLIN | syscall.EPOLLRDHUP | 1<<31, // EPOLLET, which package syscall has as a negative number
		Fd:     int32(id), Pad: int32(id >> 32),
	})
}

// Remove removes a descriptor. One that is closed is not in the set any more.
func (s *Set) Remove(conn syscall.RawConn) error {
	return s.control(conn, syscall.EPOLL_CTL_DEL, nil)
}

func (s *Set) control(conn syscall.RawConn, op int, event *syscall.EpollEvent) error {
	var err error
	outer := conn.Control(func(fd uintptr) {
		inner := s.raw.Control(func(set uintptr) {
			err = os.NewSyscallError("epoll_ctl", syscall.EpollCtl(int(set), op, int(fd), event))
		})
		err = errors.Join(err, inner)
	})
	return errors.Join(err, outer)
}

// Wait waits for at least one event, and appends those that there are to events. It returns an
// error once the set is closed.
func (s *Set) Wait(events []Event) ([]Event, error) {
	err := s.raw.Read(s.try)
	if err == nil {
		err = s.err
	}
	if err != nil {
		return events, err
	}
	for i := range s.n {
		e := &s.events[i]
		events = append(events, Event{
			ID:     int64(e.Pad)<<32 | int64(uint32(e.Fd)),
			Closed: e.Events&(syscall.EPOLLRDHUP|syscall.EPOLLHUP|syscall.EPOLLERR) != 0,
		})
	}
	return events, nil
}

// poll takes the events that there are. It returns false if there are none.
func (s *Set) poll(fd uintptr) bool {
	for {
		n, err := wait(fd, s.events[:])
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		s.n, s.err = n, os.NewSyscallError("epoll_wait", err)
		return n > 0 || err != nil
	}
}

// Close closes the set, and ends a Wait. The descriptors stay open.
func (s *Set) Close() error { return s.file.Close() }
