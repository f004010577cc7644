package web

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"runtime/debug"
	"strings"
	"time"

	"github.com/rlproxy/rlproxy/internal/conns"
)

// visitor is the sender of a request.
type visitor struct {
	*identity
	rules *Access // the rules in effect when the request arrived
}

type visitorKey struct{}

// visitorOf returns the sender of a request that has passed the guard. It is nil for /healthz.
func visitorOf(r *http.Request) *visitor {
	v, _ := r.Context().Value(visitorKey{}).(*visitor)
	return v
}

// guard passes a request on to next if its sender may make requests at all. /healthz is open to everyone.
func (s *Server) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := connOf(r)
		c.SetBusy(true)
		defer c.SetBusy(false)
		defer s.recover(r)
		setHeaders(w.Header())
		if r.ContentLength != 0 {
			w.Header().Set("Connection", "close") // otherwise net/http answers only after the rest of the body
			defer closeSoon(w)
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		if r.URL.Path != "/healthz" {
			rules := s.rules.Load()
			if !s.admit(w, r, rules) {
				return
			}
			who := s.identify(w, r, rules.ACL)
			if who == nil {
				return
			}
			r = r.WithContext(context.WithValue(r.Context(), visitorKey{}, &visitor{who, rules}))
		}
		next.ServeHTTP(w, r)
	})
}

type connKey struct{}

// withConn adds the connection to the context of its requests, for connOf.
func withConn(ctx context.Context, nc net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, conns.Of(nc))
}

func connOf(r *http.Request) *conns.Conn { return r.Context().Value(connKey{}).(*conns.Conn) }

// closeSoon waits for the rest of an answered request for restTime only. The connection is closed after that.
func closeSoon(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(restTime)) // the client may be gone
}

// setHeaders sets the headers of every answer. They prevent a browser from showing it in a frame of
// another site, guessing its type, sending its URL in a Referer, and caching it.
func setHeaders(h http.Header) {
	h.Set("Content-Security-Policy", "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY") // for browsers without frame-ancestors
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

// recover logs a panic and closes only its connection.
func (s *Server) recover(r *http.Request) {
	switch p := recover(); p {
	case nil:
	case http.ErrAbortHandler:
		panic(p)
	default:
		s.panics.Add(1)
		s.log.Error("panic while answering a request", "path", r.URL.Path, "panic", fmt.Sprint(p), "stack",
			string(debug.Stack()))
		panic(http.ErrAbortHandler) // closes the connection, since part of an answer may be written
	}
}

// admit reports whether these rules allow a request, whichever user sends it. If not, it answers the request.
func (s *Server) admit(w http.ResponseWriter, r *http.Request, rules *Access) bool {
	c := connOf(r)
	switch {
	case rules.Protected && !onLoopback(c.RemoteAddr()):
		fail(w, r, http.StatusForbidden, "protected mode: only clients on this machine are answered while there is "+
			"no password")
	case rules.ACL.Anonymous() != nil && onLoopback(c.LocalAddr()) && !localName(r.Host):
		fail(w, r, http.StatusForbidden, fmt.Sprintf("the Host %q does not name this machine; use localhost or an IP "+
			"address, or set a password", r.Host))
	default:
		return true
	}
	return false
}

// onLoopback reports whether an address belongs to the loopback interface.
func onLoopback(addr net.Addr) bool {
	tcp, ok := addr.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}

// localName reports whether a Host header is localhost or an IP address, or is missing: HTTP/1.0 permits that, and no
// browser does it. Any other name may be one that an attacker's DNS server resolves to 127.0.0.1, so that the
// attacker's page and rlproxy have the same origin in a browser on this machine (DNS rebinding). This check is not
// needed if there is a password, because the browser does not send it to that name.
func localName(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.ToLower(strings.Trim(host, "[]"))
	_, err := netip.ParseAddr(host)
	return err == nil || host == "" || host == "localhost" || strings.HasSuffix(host, ".localhost")
}
