package web

import (
	"net"
	"net/http"

	"github.com/rlproxy/rlproxy/commands/acl"
)

// identity is the user of a request.
type identity struct {
	user      *acl.User
	anonymous bool // the request had no password, and needed none
}

// identify returns the sender of a request. If the sender cannot be identified as a user, it
// answers the request and returns nil.
func (s *Server) identify(w http.ResponseWriter, r *http.Request, users *acl.Users) *identity {
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
	again := login == c.Login
	c.Login = "" // unless it is right
	u, busy := s.logins.Login(users, from, name, password, again, func() {
		s.cfg.LoginRefused("port", "http-port", "addr", r.RemoteAddr)
	})
	switch {
	case busy:
		w.Header().Set("Retry-After", "1")
		fail(w, r, http.StatusTooManyRequests, "too many refused logins")
		return nil
	case u == nil:
		unauthorized(w, r, "wrong name or password")
		return nil
	}
	c.Login = login
	return &identity{user: u}
}

// unauthorized answers that a request needs a valid name and password.
func unauthorized(w http.ResponseWriter, r *http.Request, why string) {
	w.Header().Set("WWW-Authenticate", `Basic realm="rlproxy", charset="UTF-8"`)
	fail(w, r, http.StatusUnauthorized, why)
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
