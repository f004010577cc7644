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
}

// protocolNames are the supported versions. Earlier ones are broken.
var protocolNames = []string{"TLSv1.2", "TLSv1.3"}

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
	if len(s.Protocols) > 0 && !slices.Contains(s.Protocols, "TLSv1.2") {
		t.MinVersion = tls.VersionTLS13
	}
	if len(s.Protocols) > 0 && !slices.Contains(s.Protocols, "TLSv1.3") {
		t.MaxVersion = tls.VersionTLS12
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

// several is a subset of names, in any case.
type several struct {
	p     *[]string
	names []string
}

func (v several) set(words []string) bool {
	var chosen []string
	for w := range strings.FieldsSeq(strings.Join(words, " ")) {
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

func (v several) words() [][]string { return line(strings.Join(*v.p, " ")) }
