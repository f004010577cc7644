// Package freeport finds ports for servers that tests and benchmarks start.
package freeport

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

// Ports that may be taken. They are below those that Linux gives to clients: one of them could get
// the port before the server does, or even connect to itself.
const (
	first = 10_000
	count = 20_000
)

// taken holds the UDP ports of the same numbers. It is guarded by mu.
var (
	mu    sync.Mutex
	taken []net.PacketConn
)

// Take returns a TCP port of 127.0.0.1 on which nothing listens. No other call of Take returns it, in any process,
// until this process ends. For that, Take binds the UDP port of the same number.
func Take() (port int, err error) {
	for range 100 {
		port = first + rand.IntN(count) // #nosec G404 -- no secret
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		var reserved net.PacketConn
		if reserved, err = net.ListenPacket("udp", address); err != nil {
			continue
		}
		// To listen on the port would also show whether it is free. But a process that is forked at that
		// moment keeps the socket open until it runs its own program, and the server could not bind.
		if c, refused := net.Dial("tcp", address); refused == nil {
			_, _ = c.Close(), reserved.Close()
			err = errors.New("other programs listen on the ports for tests")
			continue
		}
		mu.Lock()
		taken = append(taken, reserved)
		mu.Unlock()
		return port, nil
	}
	return 0, err
}
