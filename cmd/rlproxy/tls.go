package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rlproxy/rlproxy/internal/keypair"
)

// tlsSettings holds the directives that begin with tls-, except tls-port.
type tlsSettings struct {
	certFile    string
	keyFile     string
	keyPass     string // empty: the key is not encrypted
	caFile      string
	authClients string   // yes, no or optional
	protocols   []string // empty: all of protocolNames
	ciphers     []string // TLS 1.2 suites; empty: Go's choice
}

var authNames = []string{"yes", "no", "optional"}

// protocolNames are the supported versions, the oldest first. Earlier versions are
// broken. protocols are Go's constants, in the same order.
var protocolNames = []string{"TLSv1.2", "TLSv1.3"}

var protocols = []uint16{tls.VersionTLS12, tls.VersionTLS13}

// cipherNames are OpenSSL's names, which Redis uses, of the TLS 1.2 suites that are
// not weak. ciphers are Go's constants, in the same order. The suites of TLS 1.3 are
// all strong, and Go does not let programs choose among them.
var cipherNames = []string{
	"ECDHE-ECDSA-AES128-GCM-SHA256", "ECDHE-RSA-AES128-GCM-SHA256",
	"ECDHE-ECDSA-AES256-GCM-SHA384", "ECDHE-RSA-AES256-GCM-SHA384",
	"ECDHE-ECDSA-CHACHA20-POLY1305", "ECDHE-RSA-CHACHA20-POLY1305",
}

var ciphers = []uint16{
	tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
	tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
	tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
}

// load reads the files and returns the configuration of the TLS listeners.
func (s *tlsSettings) load(now time.Time) (*tls.Config, error) {
	if s.certFile == "" || s.keyFile == "" {
		return nil, errors.New("tls-port needs tls-cert-file and tls-key-file")
	}
	pair, err := keypair.Load(s.certFile, s.keyFile, s.keyPass, "tls-key-file-pass")
	if err != nil {
		return nil, err
	}
	if now.After(pair.Leaf.NotAfter) {
		return nil, fmt.Errorf("the certificate in %s expired on %s", s.certFile, pair.Leaf.NotAfter.Format(time.DateOnly))
	}
	t := &tls.Config{
		MinVersion: tls.VersionTLS12, MaxVersion: tls.VersionTLS13,
		Certificates: []tls.Certificate{pair},
		// A resumed session would rely on checks made before a reload. Redis clients keep
		// their connections open, so resumption would save little.
		SessionTicketsDisabled: true,
	}
	if len(s.protocols) > 0 {
		spoken := pick(s.protocols, protocolNames, protocols)
		t.MinVersion, t.MaxVersion = slices.Min(spoken), slices.Max(spoken)
	}
	if len(s.ciphers) > 0 {
		t.CipherSuites = pick(s.ciphers, cipherNames, ciphers)
	}
	return t, s.askClients(t)
}

// askClients makes t ask clients for a certificate, as configured by tls-auth-clients.
func (s *tlsSettings) askClients(t *tls.Config) error {
	if s.authClients == "no" {
		return nil
	}
	if s.caFile == "" {
		return fmt.Errorf("tls-auth-clients %s needs tls-ca-cert-file", s.authClients)
	}
	pem, err := os.ReadFile(s.caFile)
	if err != nil {
		return fmt.Errorf("can't read the authorities of clients: %w", err)
	}
	t.ClientCAs = x509.NewCertPool()
	if !t.ClientCAs.AppendCertsFromPEM(pem) {
		return fmt.Errorf("there is no certificate in %s", s.caFile)
	}
	t.ClientAuth = tls.RequireAndVerifyClientCert
	if s.authClients == "optional" {
		t.ClientAuth = tls.VerifyClientCertIfGiven
	}
	return nil
}

// pick returns the values at the indices of the chosen names.
func pick(chosen, names []string, values []uint16) []uint16 {
	var found []uint16
	for i, name := range names {
		if slices.Contains(chosen, name) {
			found = append(found, values[i])
		}
	}
	return found
}

// listenerTLS is the TLS configuration of the listeners. A reload replaces it;
// handshakes that begin afterwards use the new one.
type listenerTLS struct{ current atomic.Pointer[tls.Config] }

func (l *listenerTLS) wrap(ln net.Listener) net.Listener {
	return tls.NewListener(ln, &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			return l.current.Load(), nil
		},
	})
}

// several is a subset of names, in any case, separated by sep or blanks.
type several struct {
	p     *[]string
	names []string
	sep   string
}

func (v several) set(words []string) bool {
	var chosen []string
	for _, w := range strings.Fields(strings.ReplaceAll(strings.Join(words, " "), v.sep, " ")) {
		i := slices.IndexFunc(v.names, func(name string) bool { return strings.EqualFold(name, w) })
		if i < 0 {
			return false
		}
		chosen = append(chosen, v.names[i])
	}
	*v.p = chosen
	return len(words) > 0
}

func (v several) allowed() string {
	return "some of " + strings.Join(v.names, ", ") + `, or "" for all`
}

func (v several) words() [][]string { return line(strings.Join(*v.p, v.sep)) }
