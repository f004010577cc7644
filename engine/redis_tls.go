package engine

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"

	"github.com/rlproxy/rlproxy/internal/keypair"
)

// BackendTLS says how connections to rediss:// backends are secured. Empty fields
// are the machine's authorities, no client certificate, and each node's own host.
type BackendTLS struct {
	CACertFile string // PEM: authorities that nodes' certificates are checked against
	CertFile   string // PEM: our certificate, for nodes that ask for one; with KeyFile
	KeyFile    string
	KeyPass    string // opens KeyFile, if it is encrypted
	ServerName string // the name in all nodes' certificates
}

// load reads the files.
func (t BackendTLS) load() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName}
	if t.CACertFile != "" {
		pem, err := os.ReadFile(t.CACertFile)
		if err != nil {
			return nil, fmt.Errorf("read the backends' authorities: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("no certificate in %s", t.CACertFile)
		}
	}
	if (t.CertFile == "") != (t.KeyFile == "") {
		return nil, errors.New("a certificate for backends needs both a certificate file and a key file")
	}
	if t.CertFile != "" {
		pair, err := keypair.Load(t.CertFile, t.KeyFile, t.KeyPass, "backend-tls-key-file-pass")
		if err != nil {
			return nil, fmt.Errorf("read the certificate for backends: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// SetBackendTLS reads the files of t, and has new connections use them. Open ones
// stay as they are. After an error all is as before.
func (e *Redis) SetBackendTLS(t BackendTLS) error {
	config, err := t.load()
	if err != nil {
		return err
	}
	e.tls.Store(config)
	return nil
}

// tlsTarget is what one backend's URL says about TLS.
type tlsTarget struct {
	serverName string // empty: the host's that is dialled
	skipVerify bool   // skip_verify=true in the URL
}

// apply returns the configuration of one connection to addr.
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
	config.InsecureSkipVerify = t.skipVerify // asked for in the URL
	return config
}
