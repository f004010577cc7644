// Package epoll waits in one goroutine until any of many descriptors can be read. It is available only on Linux.
//
// A Set is edge-triggered: readiness is reported once, and again only when more data arrives. Go's scheduler parks the
// waiting goroutine as if it waited for a socket, because an epoll descriptor can itself be polled.
package epoll

// Event reports that a descriptor can be read.
type Event struct {
	ID     int64 // the number that was given to Add
	Closed bool  // the peer will send nothing more, or the connection is broken
}
