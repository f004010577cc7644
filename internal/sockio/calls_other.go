//go:build !unix

package sockio

import "syscall"

// usable reports whether descriptors can be used on this system.
const usable = false

func read(uintptr, []byte) (int, error) { return 0, syscall.EINVAL }

func write(uintptr, []byte) (int, error) { return 0, syscall.EINVAL }

func yield() {}

// empty always returns false: whether data has arrived is unknown.
func empty(uintptr) bool { return false }
