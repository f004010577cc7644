package web

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/rlproxy/rlproxy/commands/acl"
)

const (
	// loginDelay is the delay of the answer to a refused login.
	loginDelay = time.Second
	// maxDelayed is the most answers that are delayed at the same time.
	maxDelayed = 16
	// maxDelayedEach is the number of delayed answers for one address from which on passwords from that address are
	// refused unchecked, unless the previous request on the connection had the same password and was permitted.
	maxDelayedEach = 4
)

// identity is the user of a request.
type identity struct {
	user      *acl.User
	anonymous bool // the request had no password, and needed none
}

// logins checks names and passwords, and slows down clients that guess them.
type logins struct {
	refused func(client ...any) // counts and logs a refused login
	ending  context.Context     // ends all delays

	mu      sync.Mutex
	total   int            // delayed answers; guarded by mu
	delayed map[string]int // delayed answers by the client's address, at most maxDelayed; guarded by mu
}

// identify returns the sender of a request. If the sender cannot be identified as a user, it
// answers the request and returns nil.
func (l *logins) identify(w http.ResponseWriter, r *http.Request, users *acl.Users) *identity {
	name, password, given := r.BasicAuth()
	if !given {
		if u := users.Anonymous(); u != nil {
			return &identity{u, true}
		}
		unauthorized(w, r, "a name and a password are needed")
		return nil
	}
	from, _, _ := net.SplitHostPort(r.RemoteAddr) // it is a TCP address
	c, login := connOf(r), r.Header.Get("Authorization")
	again := login == c.login
	c.login = "" // unless it is right
	if !again && l.busy(from) {
		w.Header().Set("Retry-After", "1")
		fail(w, r, http.StatusTooManyRequests, "too many refused logins")
		return nil
	}
	if name == "" {
		name = acl.DefaultUser // like AUTH with only a password
	}
	if u, ok := users.Login([]byte(name), []byte(password)); ok {
		c.login = login
		return &identity{user: u}
	}
	l.refused("port", "http-port", "addr", r.RemoteAddr)
	l.delay(from)
	unauthorized(w, r, "wrong name or password")
	return nil
}

// unauthorized answers that a request needs a valid name and password.
func unauthorized(w http.ResponseWriter, r *http.Request, why string) {
	w.Header().Set("WWW-Authenticate", `Basic realm="rlproxy", charset="UTF-8"`)
	fail(w, r, http.StatusUnauthorized, why)
}

// busy reports whether maxDelayedEach answers to an address are delayed.
func (l *logins) busy(from string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.delayed[from] >= maxDelayedEach
}

// delay waits for loginDelay, unless maxDelayed answers are delayed already. It does not end with
// the request, because a client could then guess faster by closing connections.
func (l *logins) delay(from string) {
	if !l.count(from, 1) {
		return
	}
	defer l.count(from, -1)
	select {
	case <-time.After(loginDelay):
	case <-l.ending.Done():
	}
}

// count adds n, 1 or -1, to the delayed answers of an address, and reports whether there is room for them.
func (l *logins) count(from string, n int) bool {
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

// requireCommand passes a request on to next if its user may run a command.
func requireCommand(command string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !visitorOf(r).user.MayRun(command) {
			fail(w, r, http.StatusForbidden, "the user may not run "+command)
			return
		}
		next.ServeHTTP(w, r)
	})
}
