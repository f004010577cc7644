package traffic

import (
	"syscall"
	"time"
)

// sleep sleeps for some 0.1 ms too long at most. time.Sleep sleeps for at least 1 ms in
// a process that has nothing else to do.
func sleep(d time.Duration) {
	if d > 0 {
		t := syscall.NsecToTimespec(int64(d))
		_ = syscall.Nanosleep(&t, nil) // a signal that ends it early costs another look at the clock
	}
}
