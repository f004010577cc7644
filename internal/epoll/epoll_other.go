//go:build !linux

package epoll

import (
	"errors"
	"syscall"
)

// Set is not available on this system.
type Set struct{}

// New returns errors.ErrUnsupported.
func New() (*Set, error) { return nil, errors.ErrUnsupported }

// The methods return errors.ErrUnsupported.

func (*Set) Add(syscall.RawConn, int64) error     { return errors.ErrUnsupported }
func (*Set) Remove(syscall.RawConn) error         { return errors.ErrUnsupported }
func (*Set) Wait(events []Event) ([]Event, error) { return events, errors.ErrUnsupported }
func (*Set) Close() error                         { return errors.ErrUnsupported }
