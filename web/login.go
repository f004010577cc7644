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
	// maxDelayed is the most answers that are delayed at a time.
	maxDelayed = 16
	// maxDelayedEach is the most of them for one address. At that number, passwords from the
	// address are refused unchecked.
	maxDelayedEach = 4
)

// identity is a user, and how it was identified.
type identity struct {
	user      *acl.User
	anonymous bool // nobody had to log in
}

// logins checks names and passwords, and slows down clients that guess them.
type logins struct {
	refused func(client ...any) // counts and logs a refused login
	ending  context.Context     // no delay outlasts it

	mu      sync.Mutex
	total   int            // delayed answers; guarded by mu
	delayed map[string]int // delayed answers by the client's address, at most maxDelayed; guarded by mu
}

// identify returns who sent a request. If nobody who may ask did, it answers the request
// and returns nil.
func (l *logins) identify(w http.ResponseWriter, r *http.Request, users *acl.List) *identity {
	name, password, given := r.BasicAuth()
	if !given {
		if u := users.Anonymous(); u != nil {
			return &identity{u, true}
		}
		unauthorized(w, r, "a name and a password are needed")
		return nil
	}
	from, _, _ := net.SplitHostPort(r.RemoteAddr) // it is a TCP address
	if l.busy(from) {
		w.Header().Set("Retry-After", "1")
		fail(w, r, http.StatusTooManyRequests, "too many refused logins")
		return nil
	}
	if name == "" {
		name = acl.DefaultUser // as AUTH with only a password
	}
	if u, ok := users.Login([]byte(name), []byte(password)); ok {
		return &identity{user: u}
	}
	l.refused("port", "http-port", "addr", r.RemoteAddr)
	l.delay(from)
	unauthorized(w, r, "wrong name or password")
	return nil
}

// unauthorized asks for a name and a password.
func unauthorized(w http.ResponseWriter, r *http.Request, why string) {
	w.Header().Set("WWW-Authenticate", `Basic realm="rlproxy", charset="UTF-8"`)
	fail(w, r, http.StatusUnauthorized, why)
}

// busy reports whether the most answers to an address are delayed.
func (l *logins) busy(from string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.delayed[from] >= maxDelayedEach
}

// delay waits, unless enough others do. It does not end with the request, since a client
// could then guess faster by closing connections.
func (l *logins) delay(from string) {
	if !l.count(from, 1) {
		return
	}
	defer l.count(from, -1)
	t := time.NewTimer(loginDelay)
	defer t.Stop()
	select {
	case <-t.C:
	case <-l.ending.Done():
	}
}

// count adds n, 1 or -1, to the delayed answers of an address, and reports whether there is
// room for them.
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

// may passes requests of users who may run a command on to next.
func may(command string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !visitorOf(r).user.MayRun(command) {
			fail(w, r, http.StatusForbidden, "the user may not run "+command)
			return
		}
		next.ServeHTTP(w, r)
	})
}
