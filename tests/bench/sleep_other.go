//go:build !linux

package main

import "time"

// sleep sleeps as precisely as the Go runtime does here.
func sleep(d time.Duration) { time.Sleep(d) }
