package machine

import (
	"math"
	"syscall"
)

// OpenFiles returns the number of files that this process may have open. The Go runtime raises
// the soft limit to the hard limit before main.
func OpenFiles() int {
	var r syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &r) != nil {
		return math.MaxInt32
	}
	return int(min(uint64(r.Cur), math.MaxInt32)) //nolint:unconvert // signed on some systems
}
