package acl

import (
	"context"
	"sync"
	"time"
)

const (
	// maxDelayed is the most answers that are delayed at the same time.
	maxDelayed = 16
	// MaxDelayedEach is the number of delayed answers for one address from which on passwords from that address are
	// refused unchecked.
	MaxDelayedEach = 4
)

// Logins checks the names and passwords of requests that each have one, and slows down clients that guess them.
type Logins struct {
	// Delay is the delay of the answer to a refused login.
	Delay time.Duration

	ending context.Context // ends all delays

	mu      sync.Mutex
	total   int            // delayed answers; guarded by mu
	delayed map[string]int // delayed answers by the client's address, at most maxDelayed; guarded by mu
}

// NewLogins returns Logins whose delays end with ending at the latest.
func NewLogins(ending context.Context) *Logins {
	return &Logins{Delay: time.Second, ending: ending, delayed: make(map[string]int)}
}

// Login returns the user with a name and a password. An empty name is that of the default user, like AUTH with only a
// password. from is the address of the client, and again reports whether the previous request on its connection had
// the same name and password and was permitted. If it was not, and too many other guesses from that address are
// delayed, Login checks nothing and reports busy. If the name or the password is wrong, it calls refused, waits, and
// returns nil. It does not end with the request, because a client could then guess faster by closing connections.
func (l *Logins) Login(users *Users, from, name, password string, again bool, refused func()) (u *User, busy bool) {
	if !again && l.Busy(from) {
		return nil, true
	}
	if name == "" {
		name = DefaultUser
	}
	if u, ok := users.Login([]byte(name), []byte(password)); ok {
		return u, false
	}
	refused()
	l.delay(from)
	return nil, false
}

// Busy reports whether so many answers to an address are delayed that its passwords are refused unchecked.
func (l *Logins) Busy(from string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.delayed[from] >= MaxDelayedEach
}

// delay waits for Delay, unless maxDelayed answers are delayed already.
func (l *Logins) delay(from string) {
	if !l.count(from, 1) {
		return
	}
	defer l.count(from, -1)
	select {
	case <-time.After(l.Delay):
	case <-l.ending.Done():
	}
}

// count adds n, 1 or -1, to the delayed answers of an address, and reports whether there is room for them.
func (l *Logins) count(from string, n int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.total+n > maxDelayed {
		return false
	}
	l.total += n
	if l.delayed[from] += n; l.delayed[from] == 0 {
		delete(l.delayed, from)
	}
	return true
}
