package backend

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"

	"github.com/rlproxy/rlproxy/internal/keypair"
)

// NodeTLS configures connections to rediss:// backends.
type NodeTLS struct {
	CACertFile string // PEM file with the authorities to trust; empty: those of the system
	CertFile   string // PEM file with the client certificate, for nodes that require one; empty: none
	KeyFile    string // PEM file with the private key of CertFile
	ServerName string // the name expected in the certificates of all nodes; empty: the host of each node
}

// load reads the files and returns the configuration for all nodes.
func (t NodeTLS) load() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName}
	if t.CACertFile != "" {
		pem, err := os.ReadFile(t.CACertFile)
		if err != nil {
			return nil, fmt.Errorf("can't read backend-tls-ca-cert-file: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("no certificate in %s", t.CACertFile)
		}
	}
	if (t.CertFile == "") != (t.KeyFile == "") {
		return nil, errors.New("backend-tls-cert-file and backend-tls-key-file must be set together")
	}
	if t.CertFile != "" {
		pair, err := keypair.Load(t.CertFile, t.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("backend-tls-cert-file: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// tlsTarget holds the TLS settings of one backend's URL.
type tlsTarget struct {
	serverName string // empty: the host that is dialed
	skipVerify bool   // the URL has skip_verify=true
}

// apply returns the configuration of a connection to addr.
func (t *tlsTarget) apply(config *tls.Config, addr string) *tls.Config {
	config = config.Clone()
	if config.ServerName == "" {
		config.ServerName = t.serverName
	}
	if config.ServerName == "" {
		if host, _, err := net.SplitHostPort(addr); err == nil {
			config.ServerName = host
		}
	}
	config.InsecureSkipVerify = t.skipVerify // requested in the URL
	return config
}
