// Package clients keeps the list of connected clients, for CLIENT LIST and CLIENT KILL.
//
// A session publishes its facts when it has answered a pipeline. Other sessions read only what was published.
//
// Reading order: clients.go (this file), name.go, line.go, filter.go.
package clients

import (
	"cmp"
	"net"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rlproxy/rlproxy/resp"
)

// Client is a connected client as other sessions see it. The exported fields never change.
type Client struct {
	ID      int64
	Remote  net.Addr
	Local   net.Addr
	Created time.Time
	Memory  func() resp.Holdings // what is held for the client now

	seen atomic.Int64 // when the last pipeline arrived, in Unix ms

	mu    sync.Mutex
	shown Facts // written by Publish; guarded by mu
}

// Facts is what CLIENT LIST shows of a session, except for its addresses and times.
type Facts struct {
	Name    string // CLIENT SETNAME
	Lib     string // CLIENT SETINFO LIB-NAME
	LibVer  string // CLIENT SETINFO LIB-VER
	Tracked bool   // CLIENT TRACKING ON
	NoEvict bool   // CLIENT NO-EVICT ON
	NoTouch bool   // CLIENT NO-TOUCH ON

	User  string
	Cmd   string // the last command; empty: none, or it is unknown
	Proto int    // 2 or 3
	Subs  int    // channels subscribed to
	Waits bool   // a command waits (BLOCK)
	Multi int    // commands queued since MULTI; -1 outside a transaction
}

// See records when the client has sent something.
func (c *Client) See(now time.Time) { c.seen.Store(now.UnixMilli()) }

// Publish makes facts visible to other sessions. Only the client's own goroutine calls it.
func (c *Client) Publish(now Facts) {
	if now == c.shown { // no lock: only this goroutine writes it
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shown = now
}

// Facts returns the facts that were published last.
func (c *Client) Facts() Facts {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.shown
}

// List is the list of connected clients. The zero value is an empty list.
type List struct {
	mu   sync.Mutex
	open map[int64]*Client // by ID; guarded by mu
}

// Add adds a client.
func (l *List) Add(c *Client) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open == nil {
		l.open = make(map[int64]*Client)
	}
	l.open[c.ID] = c
}

// Remove removes a client.
func (l *List) Remove(id int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.open, id)
}

// Len returns the number of clients.
func (l *List) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.open)
}

// Memory returns, for INFO, what is held for all clients together.
func (l *List) Memory() [][2]string {
	var sum resp.Holdings
	for _, c := range l.All() {
		m := c.Memory()
		sum.Unread, sum.Unsent, sum.Total = sum.Unread+m.Unread, sum.Unsent+m.Unsent, sum.Total+m.Total
	}
	text := func(n int64) string { return strconv.FormatInt(n, 10) }
	return [][2]string{{"clients_qbuf", text(sum.Unread)}, {"clients_omem", text(sum.Unsent)},
		{"clients_tot_mem", text(sum.Total)}}
}

// All returns the clients in the order of their IDs.
func (l *List) All() []*Client {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]*Client, 0, len(l.open))
	for _, c := range l.open {
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b *Client) int { return cmp.Compare(a.ID, b.ID) })
	return all
}
