package config

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/rlproxy/rlproxy/internal/keypair"
)

// ListenerTLS holds the directives that begin with tls-, except tls-port.
type ListenerTLS struct {
	CertFile    string
	KeyFile     string
	CAFile      string
	AuthClients string   // yes, no or optional
	Protocols   []string // empty: all of protocolNames
	Ciphers     []string // TLS 1.2 suites; empty: Go's choice
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

// Load reads the files and returns the configuration of the TLS listeners.
func (s *ListenerTLS) Load() (*tls.Config, error) {
	if s.CertFile == "" || s.KeyFile == "" {
		return nil, errors.New("tls-port needs tls-cert-file and tls-key-file")
	}
	pair, err := keypair.Load(s.CertFile, s.KeyFile)
	if err != nil {
		return nil, err
	}
	t := &tls.Config{
		MinVersion: tls.VersionTLS12, MaxVersion: tls.VersionTLS13,
		Certificates: []tls.Certificate{pair},
		// A resumed session would rely on checks made before a reload. Redis clients keep
		// their connections open, so resumption would save little.
		SessionTicketsDisabled: true,
	}
	if len(s.Protocols) > 0 {
		spoken := pick(s.Protocols, protocolNames, protocols)
		t.MinVersion, t.MaxVersion = slices.Min(spoken), slices.Max(spoken)
	}
	if len(s.Ciphers) > 0 {
		t.CipherSuites = pick(s.Ciphers, cipherNames, ciphers)
		kind := "ECDSA" // also for Ed25519
		if pair.Leaf.PublicKeyAlgorithm == x509.RSA {
			kind = "RSA"
		}
		usable := func(name string) bool { return strings.HasPrefix(name, "ECDHE-"+kind) }
		if t.MinVersion == tls.VersionTLS12 && !slices.ContainsFunc(s.Ciphers, usable) {
			return nil, fmt.Errorf("tls-ciphers has no suite for the key of %s, which needs one with %s: no client "+
				"could use TLS 1.2", s.CertFile, kind)
		}
	}
	return t, s.askClients(t)
}

// askClients makes t ask clients for a certificate, as configured by tls-auth-clients.
func (s *ListenerTLS) askClients(t *tls.Config) error {
	if s.AuthClients == "no" {
		return nil
	}
	if s.CAFile == "" {
		return fmt.Errorf("tls-auth-clients %s needs tls-ca-cert-file", s.AuthClients)
	}
	pem, err := os.ReadFile(s.CAFile)
	if err != nil {
		return fmt.Errorf("can't read the authorities of clients: %w", err)
	}
	t.ClientCAs = x509.NewCertPool()
	if !t.ClientCAs.AppendCertsFromPEM(pem) {
		return fmt.Errorf("there is no certificate in %s", s.CAFile)
	}
	t.ClientAuth = tls.RequireAndVerifyClientCert
	if s.AuthClients == "optional" {
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
