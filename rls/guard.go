package rls

import (
	"context"
	"encoding/base64"
	"net"
	"strings"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"

	"github.com/rlproxy/rlproxy/commands/acl"
	"github.com/rlproxy/rlproxy/internal/conns"
)

// link is a connection, as the guard finds it in the context of a request.
type link struct {
	*conns.Conn

	refused int // requests that the guard has refused; used only by the guard

	mu       sync.Mutex
	requests int // in progress, but for probes; guarded by mu
	probes   int // requests to the health service in progress; guarded by mu
}

// AuthType implements credentials.AuthInfo.
func (*link) AuthType() string { return "" }

// begin counts a request in progress, or a probe. It reports false if there are too many probes. A connection without
// requests is idle, even if its client sends the messages of probes slowly.
func (l *link) begin(probe bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if probe {
		l.probes++
		return l.probes <= maxProbes
	}
	if l.requests++; l.requests == 1 {
		l.SetBusy(true)
	}
	return true
}

func (l *link) end(probe bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if probe {
		l.probes--
	} else if l.requests--; l.requests == 0 {
		l.SetBusy(false)
	}
}

// opened implements credentials.TransportCredentials. The listener speaks TLS already, if that is used; opened only
// adds the link to the contexts of a connection's requests.
type opened struct{}

func (opened) ServerHandshake(nc net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nc, &link{Conn: conns.Of(nc)}, nil
}

func (opened) ClientHandshake(_ context.Context, _ string, nc net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nc, nil, nil // a server has no use for it
}

func (opened) Info() credentials.ProtocolInfo            { return credentials.ProtocolInfo{} }
func (c opened) Clone() credentials.TransportCredentials { return c }
func (opened) OverrideServerName(string) error           { return nil }

type userKey struct{}

// userOf returns the user of a request that has passed the guard.
func userOf(ctx context.Context) *acl.User { return ctx.Value(userKey{}).(*acl.User) }

// linkOf returns the connection of a request.
func linkOf(ctx context.Context) *link {
	p, _ := peer.FromContext(ctx) // a request has one
	return p.AuthInfo.(*link)
}

// guard is called once the headers of a request have arrived, and before its message takes memory. It refuses requests
// that nobody may make, and those above the bounds. A connection with many of these is closed: each takes memory until
// the time that its client has set, which may be years.
func (s *Server) guard(ctx context.Context, info *tap.Info) (context.Context, error) {
	l := linkOf(ctx)
	admitted, err := s.admit(ctx, l, info)
	if err == nil {
		return admitted, nil
	}
	if l.refused++; l.refused == maxRefused {
		_ = l.Close() // gRPC notices
	}
	return nil, err
}

// admit admits a request, and counts it until ctx ends, which is when it is answered. The health service is open to
// everyone.
func (s *Server) admit(ctx context.Context, l *link, info *tap.Info) (context.Context, error) {
	probe := strings.HasPrefix(info.FullMethodName, healthPath)
	var u *acl.User
	if !probe {
		var err error
		if u, err = s.identify(l, info.Header.Get("authorization")); err != nil {
			return nil, err
		}
		if s.requests.Add(1) > maxRequests {
			s.requests.Add(-1)
			return nil, errBusy
		}
	}
	if !l.begin(probe) {
		l.end(probe)
		return nil, errBusy
	}
	within, cancel := context.WithTimeout(context.WithValue(ctx, userKey{}, u), requestTime)
	context.AfterFunc(ctx, func() {
		l.end(probe)
		if !probe {
			s.requests.Add(-1)
		}
		cancel()
	})
	return within, nil
}

var errBusy = status.Error(codes.ResourceExhausted, "too many requests are in progress")

// identify returns the user of a request with these Authorization headers, or the error that refuses it.
func (s *Server) identify(l *link, headers []string) (*acl.User, error) {
	settings, from := s.settings.Load(), l.RemoteAddr().(*net.TCPAddr)
	if settings.Protected && !from.IP.IsLoopback() {
		return nil, status.Error(codes.PermissionDenied, "protected mode: only clients on this machine are answered "+
			"while there is no password")
	}
	if len(headers) == 0 {
		if u := settings.ACL.Anonymous(); u != nil {
			return u, nil
		}
		return nil, status.Error(codes.Unauthenticated, "a name and a password are needed: authorization: Basic")
	}
	name, password, ok := basic(headers[0])
	if !ok || len(headers) > 1 {
		return nil, status.Error(codes.Unauthenticated, "authorization must be there once, and be Basic")
	}
	again := headers[0] == l.Login
	l.Login = "" // unless it is right
	u, busy := s.logins.Login(settings.ACL, from.IP.String(), name, password, again, func() {
		s.cfg.LoginRefused("port", "rls-port", "addr", from.String())
	})
	switch {
	case busy:
		return nil, status.Error(codes.ResourceExhausted, "too many refused logins")
	case u == nil:
		return nil, status.Error(codes.Unauthenticated, "wrong name or password")
	}
	l.Login = headers[0]
	return u, nil
}

// basic returns the name and the password of HTTP's Basic authentication.
func basic(header string) (name, password string, ok bool) {
	const scheme = "Basic "
	if len(header) < len(scheme) || !strings.EqualFold(header[:len(scheme)], scheme) {
		return "", "", false
	}
	text, err := base64.StdEncoding.DecodeString(header[len(scheme):])
	if err != nil {
		return "", "", false
	}
	return strings.Cut(string(text), ":")
}
