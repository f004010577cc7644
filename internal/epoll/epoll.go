// Package epoll waits in one goroutine until any of many descriptors can be read. It is
// available only on Linux.
//
// A Set is edge-triggered: readiness is reported once, and again only when more data arrives. The
// goroutine that waits is parked by Go's scheduler, as one that waits for a socket is: an epoll
// descriptor can be waited for like any other.
package epoll

// Event reports that a descriptor can be read.
type Event struct {
	ID     int64 // as given to Add
	Closed bool  // the peer sends nothing after what has arrived, or the connection is broken
}
