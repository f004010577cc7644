// Package freeport finds ports for servers that tests and benchmarks start.
package freeport

import (
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
		var l net.Listener
		if l, err = net.Listen("tcp", address); err != nil {
			_ = reserved.Close()
			continue
		}
		mu.Lock()
		taken = append(taken, reserved)
		mu.Unlock()
		return port, l.Close()
	}
	return 0, err
}
