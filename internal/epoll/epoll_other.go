//go:build !linux

package epoll

import (
	"errors"
	"syscall"
)

// Poller is not available on this system.
type Poller struct{}

// New returns errors.ErrUnsupported.
func New() (*Poller, error) { return nil, errors.ErrUnsupported }

// The methods return errors.ErrUnsupported.

func (*Poller) Add(syscall.RawConn, int64) error     { return errors.ErrUnsupported }
func (*Poller) Remove(syscall.RawConn) error         { return errors.ErrUnsupported }
func (*Poller) Wait(events []Event) ([]Event, error) { return events, errors.ErrUnsupported }
func (*Poller) Close() error                         { return errors.ErrUnsupported }
