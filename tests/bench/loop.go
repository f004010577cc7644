package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"slices"
	"time"
)

// wait is one client that waits for each answer before it asks again. Its socket
// blocks, so that no event loop of ours stands between an answer and the clock.
func (l load) wait(ctx context.Context, n int, s *sample) error {
	c, err := dial(l.fronts[0].port)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }() // all replies are read
	socket, err := c.Conn.(interface{ File() (*os.File, error) }).File()
	if err != nil {
		return err
	}
	defer func() { _ = socket.Close() }() // likewise
	socket.Fd()                           // makes it block
	commands := make([][]byte, 1024)
	for i := range commands {
		commands[i] = encode(nil, l.command, i*l.keys/len(commands))
	}
	took := make([]time.Duration, n)
	reply := make([]byte, 4096)
	began := time.Now()
	for i := range took {
		if i%1024 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		asked := time.Now()
		if _, err := socket.Write(commands[i%len(commands)]); err != nil {
			return err
		}
		// Both servers write a reply of this size at once, so one read has it whole.
		got, err := socket.Read(reply)
		if err != nil {
			return err
		}
		if reply[0] == '-' || reply[got-1] != '\n' {
			return fmt.Errorf("not a decision: %q", reply[:got])
		}
		took[i] = time.Since(asked)
	}
	s.rate = float64(n) / time.Since(began).Seconds()
	slices.Sort(took)
	s.p50, s.p99 = quantile(took, 0.5), quantile(took, 0.99)
	return nil
}

// quantile returns what the share q of sorted durations do not exceed, in us.
func quantile(sorted []time.Duration, q float64) float64 {
	rank := int(math.Ceil(q * float64(len(sorted)))) // of the one that is the last of the share, from 1
	return float64(sorted[max(rank, 1)-1].Nanoseconds()) / 1e3
}
