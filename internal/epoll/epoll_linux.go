package epoll

import (
	"errors"
	"os"
	"syscall"
)

// maxEvents is the most events that one Wait returns.
const maxEvents = 256

// Poller is a set of descriptors. Only one goroutine at a time may call Wait. The other methods may be
// called from several goroutines at once.
type Poller struct {
	file   *os.File                      // the epoll descriptor
	raw    syscall.RawConn               // access to file
	try    func(fd uintptr) bool         // poll as a func value, created once so that Wait does not allocate
	events [maxEvents]syscall.EpollEvent // filled by poll
	n      int                           // events that poll has found
	err    error                         // the error of poll
}

// New returns an empty set.
func New() (*Poller, error) {
	fd, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	if err := syscall.SetNonblock(fd, true); err != nil { // makes package os register it with Go's poller
		_ = syscall.Close(fd)
		return nil, os.NewSyscallError("fcntl", err)
	}
	s := &Poller{file: os.NewFile(uintptr(fd), "epoll")}
	if s.raw, err = s.file.SyscallConn(); err != nil {
		return nil, errors.Join(err, s.file.Close())
	}
	s.try = s.poll
	return s, nil
}

// Add adds a descriptor. id identifies it in events. If it can be read already, there is an event at once.
func (s *Poller) Add(conn syscall.RawConn, id int64) error {
	return s.control(conn, syscall.EPOLL_CTL_ADD, &syscall.EpollEvent{
		Events: syscall.EPOLLIN | syscall.EPOLLRDHUP | 1<<31, // EPOLLET, which is negative in package syscall
		Fd:     int32(id), Pad: int32(id >> 32),
	})
}

// Remove removes a descriptor. Closing a descriptor removes it too.
func (s *Poller) Remove(conn syscall.RawConn) error {
	return s.control(conn, syscall.EPOLL_CTL_DEL, nil)
}

func (s *Poller) control(conn syscall.RawConn, op int, event *syscall.EpollEvent) error {
	var err error
	outer := conn.Control(func(fd uintptr) {
		inner := s.raw.Control(func(set uintptr) {
			err = os.NewSyscallError("epoll_ctl", syscall.EpollCtl(int(set), op, int(fd), event))
		})
		err = errors.Join(err, inner)
	})
	return errors.Join(err, outer)
}

// Wait waits until there is at least one event, and appends the pending events to events. It returns
// an error once the set is closed.
func (s *Poller) Wait(events []Event) ([]Event, error) {
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

// poll takes the pending events. It returns false if there are none.
func (s *Poller) poll(fd uintptr) bool {
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
func (s *Poller) Close() error { return s.file.Close() }
