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

	"github.com/rlproxy/rlproxy/cmd/rlproxy/config"
)

// listen opens every address of the configuration, or none if it returns an error.
// It wraps the listeners of tls-port with secure.
func listen(ctx context.Context, c *config.Config, secure func(net.Listener) net.Listener) ([]net.Listener, error) {
	var open []net.Listener
	var err error
	if c.Port != 0 || c.TLSPort == 0 {
		open, err = listenTCP(ctx, c)
	}
	if err == nil && c.TLSPort != 0 {
		var more []net.Listener
		more, err = listenPort(ctx, c, c.TLSPort)
		for _, l := range more {
			open = append(open, secure(l))
		}
	}
	if err == nil && c.UnixSocket != "" {
		var l net.Listener
		if l, err = listenUnix(ctx, c); err == nil {
			open = append(open, l)
		}
	}
	if err == nil && len(open) == 0 {
		err = config.ErrNoAddress
	}
	if err != nil {
		closeAll(open)
		return nil, err
	}
	return open, nil
}

// listenTCP opens all bind addresses on one port. With port 0 the first address
// picks the port; it may be taken on another address, so there are a few tries.
func listenTCP(ctx context.Context, c *config.Config) ([]net.Listener, error) {
	const tries = 10
	for try := 1; ; try++ {
		open, err := listenPort(ctx, c, c.Port)
		if err == nil || c.Port != 0 || try == tries || !errors.Is(err, syscall.EADDRINUSE) {
			return open, err
		}
	}
}

// listenPort makes one attempt to open all bind addresses on a port.
func listenPort(ctx context.Context, c *config.Config, port int) ([]net.Listener, error) {
	lc := net.ListenConfig{KeepAlive: keepAlive(c)}
	var open []net.Listener
	for _, address := range c.Bind {
		host, optional := strings.CutPrefix(address, "-")
		l, err := lc.Listen(ctx, network(host), net.JoinHostPort(strings.Trim(host, "*"), strconv.Itoa(port)))
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
func keepAlive(c *config.Config) time.Duration {
	if c.TCPKeepAlive == 0 {
		return -1
	}
	return c.TCPKeepAlive
}

// listenUnix opens the Unix socket. It removes a socket that a killed process left
// behind, but not one on which a process still listens.
func listenUnix(ctx context.Context, c *config.Config) (net.Listener, error) {
	path := c.UnixSocket
	if err := checkSocket(path); err != nil {
		return nil, err
	}
	if _, err := os.Lstat(path); err == nil {
		conn, err := net.DialTimeout("unix", path, time.Second)
		if err == nil {
			_ = conn.Close() // opened only to see whether a process listens
		}
		if !errors.Is(err, syscall.ECONNREFUSED) { // a process that is too busy to accept causes another error
			return nil, fmt.Errorf("can't listen on %s: another process does", path)
		}
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("can't remove a left-over socket: %w", err)
		}
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("can't listen on %s: %w", path, err)
	}
	if c.UnixSocketPerm != 0 {
		if err := os.Chmod(path, c.UnixSocketPerm); err != nil {
			closeAll([]net.Listener{l})
			return nil, fmt.Errorf("can't set the socket's mode: %w", err)
		}
	}
	return l, nil
}

// checkSocket returns an error if there is something other than a socket at path.
func checkSocket(path string) error {
	if st, err := os.Lstat(path); err == nil && st.Mode().Type() != os.ModeSocket {
		return fmt.Errorf("can't listen on %s: there is a file that is not a socket", path)
	}
	return nil
}

// closeAll closes the listeners of a failed start.
func closeAll(open []net.Listener) {
	for _, l := range open {
		_ = l.Close() // the caller reports the error that led here
	}
}
