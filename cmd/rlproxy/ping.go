package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/rlproxy/rlproxy/cmd/rlproxy/config"
)

// pingWithin is how long a running rlproxy has to answer on one address.
const pingWithin = 2 * time.Second

// listener is an address of a running rlproxy, as package net has it.
type listener struct {
	network, address string
	tls              bool
}

// ping asks the running rlproxy that has the configuration of load for an answer to PING. An error says that there was
// none on any of its addresses. It sends no password: -NOAUTH is an answer, too.
func ping(ctx context.Context, load func() (*config.Config, error), stdout io.Writer) error {
	c, err := load()
	if err != nil {
		return err
	}
	err = errors.New("port is 0, which is a free port that ping does not know")
	for i, l := range listeners(c) {
		said, failed := l.ping(ctx)
		if failed == nil {
			_, err := fmt.Fprintf(stdout, "%s answers %s\n", l.address, said)
			return err
		}
		if i == 0 {
			err = nil
		}
		err = errors.Join(err, fmt.Errorf("%s: %w", l.address, failed))
	}
	return err
}

// listeners returns where a configuration listens, and first where no TLS is needed.
func listeners(c *config.Config) (all []listener) {
	if c.UnixSocket != "" {
		all = append(all, listener{"unix", c.UnixSocket, false})
	}
	for _, of := range []listener{{"", strconv.Itoa(c.Port), false}, {"", strconv.Itoa(c.TLSPort), true}} {
		for _, host := range c.Bind {
			host = strings.TrimPrefix(host, "-")
			switch host {
			case "*", "0.0.0.0":
				host = "127.0.0.1"
			case "::*", "::":
				host = "::1"
			}
			if of.address != "0" {
				all = append(all, listener{network(host), net.JoinHostPort(host, of.address), of.tls})
			}
		}
	}
	return all
}

// ping returns what the listener answers to PING, if that shows that rlproxy works.
func (l listener) ping(ctx context.Context) (said string, err error) {
	ctx, cancel := context.WithTimeout(ctx, pingWithin)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, l.network, l.address)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }() // nothing is written any more
	deadline, _ := ctx.Deadline()
	if err := conn.SetDeadline(deadline); err != nil {
		return "", err
	}
	if l.tls {
		// No secret is sent, so it does not matter whose certificate it is.
		conn = tls.Client(conn, &tls.Config{InsecureSkipVerify: true}) // #nosec G402
	}
	if _, err = conn.Write([]byte("PING\r\n")); err == nil {
		said, err = bufio.NewReader(conn).ReadString('\n')
	}
	if refused := new(net.OpError); errors.As(err, &refused) && refused.Op == "remote error" {
		return "that it wants a certificate", nil // tls-auth-clients
	}
	if err != nil {
		return "", err
	}
	said = strings.TrimRight(said, "\r\n")
	if said != "+PONG" && !strings.HasPrefix(said, "-NOAUTH ") {
		return "", errors.New("it answered " + said)
	}
	return said[1:], nil
}
