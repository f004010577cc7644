//go:build !linux

package traffic

import "time"

// sleep sleeps as precisely as the Go runtime does here.
func sleep(d time.Duration) { time.Sleep(d) }
