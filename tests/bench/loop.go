package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"
)

// fill asks for every key once, over a few connections that send many commands
// together.
func (l load) fill(ctx context.Context) error {
	const connections, together = 8, 128
	var wg sync.WaitGroup
	failed := make([]error, connections)
	for i := range connections {
		wg.Go(func() {
			failed[i] = l.fillFrom(ctx, l.keys*i/connections, l.keys*(i+1)/connections, together)
		})
	}
	wg.Wait()
	for _, err := range failed {
		if err != nil {
			return fmt.Errorf("filling: %w", err)
		}
	}
	return nil
}

func (l load) fillFrom(ctx context.Context, from, to, together int) error {
	c, err := dial(l.front.port)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }() // all replies are read
	var out []byte
	for from < to && ctx.Err() == nil {
		out = out[:0]
		end := min(from+together, to)
		for i := from; i < end; i++ {
			out = encode(out, l.command, i)
		}
		if _, err := c.Write(out); err != nil {
			return err
		}
		for ; from < end; from++ {
			if _, err := readReply(c.r); err != nil {
				return err
			}
		}
	}
	return ctx.Err()
}

// closed is one client that waits for each answer before it asks again. Its socket
// blocks, so that no event loop of ours stands between an answer and the clock.
func (l load) closed(ctx context.Context, n int, s *sample) error {
	c, err := dial(l.front.port)
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
	us := func(q float64) float64 { return float64(took[int(q*float64(n-1))].Nanoseconds()) / 1e3 }
	s.p50, s.p99 = us(0.5), us(0.99)
	return nil
}
