package config

import (
	"errors"
	"fmt"
)

// ErrNoAddress is the error of a server without addresses.
var ErrNoAddress = errors.New("nothing to listen on: bind or unixsocket must name something")

// badLogin is the error of the user and the password of nodes or sentinels.
const badLogin = "%[1]s-user needs %[1]s-password or %[1]s-password-file, and only one of these two may be set"

// Conflict returns an error if settings that are each allowed contradict each other. given
// has the names of the directives that the configuration sets, in lower case.
func (c *Config) Conflict(given map[string]bool) error {
	switch {
	case len(c.Bind) == 0 && c.UnixSocket == "":
		return ErrNoAddress
	case c.TLSPort != 0 && c.TLSPort == c.Port:
		return fmt.Errorf("port and tls-port must differ; both are %d", c.Port)
	case c.HTTPPort != 0 && c.HTTPPort == c.Port:
		return fmt.Errorf("http-port and port must differ; both are %d", c.HTTPPort)
	case c.HTTPPort != 0 && c.HTTPPort == c.TLSPort:
		return fmt.Errorf("http-port and tls-port must differ; both are %d", c.HTTPPort)
	case c.HTTPPort != 0 && len(c.Bind) == 0:
		return errors.New("http-port needs an address to listen on: bind must name one")
	case c.RLSPort != 0 && (c.RLSPort == c.Port || c.RLSPort == c.TLSPort || c.RLSPort == c.HTTPPort):
		return fmt.Errorf("rls-port must differ from port, tls-port and http-port; it is %d", c.RLSPort)
	case c.RLSPort != 0 && len(c.Bind) == 0:
		return errors.New("rls-port needs an address to listen on: bind must name one")
	case c.DecisionLog != "" && c.DecisionLog == c.LogFile:
		return fmt.Errorf("logfile and decision-log must differ; both are %s", c.LogFile)
	case c.PolicyFile != "" && len(c.Backends) > 0:
		return errors.New("policy-file cannot be combined with backend: with backends, policies are stored on a node")
	case c.Logins.Nodes.Conflicts():
		return fmt.Errorf(badLogin, "backend")
	case c.Logins.Sentinels.Conflicts():
		return fmt.Errorf(badLogin, "sentinel")
	case c.Replicas.Replicas > 0 && len(c.Backends) == 0:
		return errors.New("wait-replicas needs backend: state that is kept in this process has no replicas")
	case c.ProtoMaxBulk > c.QueryBuffer:
		return below("client-query-buffer-limit", c.QueryBuffer, "proto-max-bulk-len", c.ProtoMaxBulk)
	case !given["maxmemory-clients"]:
		// It is derived from the machine's memory. A client that needs more than it allows is
		// refused then.
	case given["client-query-buffer-limit"] && c.QueryBuffer > c.ClientMemory:
		return below("maxmemory-clients", c.ClientMemory, "client-query-buffer-limit", c.QueryBuffer)
	case given["client-output-buffer-limit"] && c.OutputBuffer > c.ClientMemory:
		return below("maxmemory-clients", c.ClientMemory, "client-output-buffer-limit", c.OutputBuffer)
	}
	return nil
}

// below returns the error about a limit that is lower than another one that it must hold.
func below(name string, limit int64, inner string, least int64) error {
	return fmt.Errorf("%s %d must be at least %s, which is %d", name, limit, inner, least)
}
