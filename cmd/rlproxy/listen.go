package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// errNoAddress is the error of a server without addresses.
var errNoAddress = errors.New("nothing to listen on: bind or unixsocket must name something")

// listen opens every address of the configuration, or none if it returns an error.
// It wraps the listeners of tls-port with secure.
func listen(ctx context.Context, c *config, secure func(net.Listener) net.Listener) ([]net.Listener, error) {
	var open []net.Listener
	var err error
	if c.port != 0 || c.tlsPort == 0 {
		open, err = listenTCP(ctx, c)
	}
	if err == nil && c.tlsPort != 0 {
		var more []net.Listener
		more, err = listenPort(ctx, c, c.tlsPort)
		for _, l := range more {
			open = append(open, secure(l))
		}
	}
	if err == nil && c.unixSocket != "" {
		var l net.Listener
		if l, err = listenUnix(ctx, c); err == nil {
			open = append(open, l)
		}
	}
	if err == nil && len(open) == 0 {
		err = errNoAddress
	}
	if err != nil {
		closeAll(open)
		return nil, err
	}
	return open, nil
}

// listenTCP opens all bind addresses on one port. With port 0 the first address
// picks the port; it may be taken on another address, so there are a few tries.
func listenTCP(ctx context.Context, c *config) ([]net.Listener, error) {
	const tries = 10
	for try := 1; ; try++ {
		open, err := listenPort(ctx, c, c.port)
		if err == nil || c.port != 0 || try == tries || !errors.Is(err, syscall.EADDRINUSE) {
			return open, err
		}
	}
}

// listenPort makes one attempt to open all bind addresses on a port.
func listenPort(ctx context.Context, c *config, port int) ([]net.Listener, error) {
	config := net.ListenConfig{KeepAlive: keepAlive(c)}
	var open []net.Listener
	for _, address := range c.bind {
		host, optional := strings.CutPrefix(address, "-")
		l, err := config.Listen(ctx, network(host), net.JoinHostPort(strings.Trim(host, "*"), strconv.Itoa(port)))
		switch {
		case err != nil && optional && !errors.Is(err, syscall.EADDRINUSE):
			continue
		case err != nil:
			closeAll(open)
			return nil, fmt.Errorf("can't listen on %s: %w", host, err)
		}
		open = append(open, l)
		port = l.Addr().(*net.TCPAddr).Port
	}
	return open, nil
}

// network keeps IPv4 and IPv6 apart, so that * and ::* can be bound side by side.
func network(host string) string {
	if strings.Contains(host, ":") {
		return "tcp6"
	}
	return "tcp4"
}

// keepAlive returns tcp-keepalive as package net wants it: negative for none.
func keepAlive(c *config) time.Duration {
	if c.tcpKeepalive == 0 {
		return -1
	}
	return c.tcpKeepalive
}

// listenUnix opens the Unix socket. It removes a socket that a killed process left
// behind, but not one on which a process still listens.
func listenUnix(ctx context.Context, c *config) (net.Listener, error) {
	path := c.unixSocket
	if st, err := os.Lstat(path); err == nil && st.Mode().Type() == os.ModeSocket {
		if conn, err := net.DialTimeout("unix", path, time.Second); err == nil {
			_ = conn.Close() // opened only to see whether a process listens
			return nil, fmt.Errorf("can't listen on %s: another process does", path)
		}
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("can't remove a left-over socket: %w", err)
		}
	}
	var config net.ListenConfig
	l, err := config.Listen(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("can't listen on %s: %w", path, err)
	}
	if c.unixSocketPerm != 0 {
		if err := os.Chmod(path, c.unixSocketPerm); err != nil {
			closeAll([]net.Listener{l})
			return nil, fmt.Errorf("can't set the socket's mode: %w", err)
		}
	}
	return l, nil
}

// closeAll closes the listeners of a failed start.
func closeAll(open []net.Listener) {
	for _, l := range open {
		_ = l.Close() // the caller reports the error that led here
	}
}
