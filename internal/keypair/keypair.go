// Package keypair reads a certificate and its private key.
package keypair

import (
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"os"
	"strings"
	"time"
)

// Load reads a certificate and its key from PEM files. An encrypted key is an error, and so is a
// certificate that is not valid now. Errors contain the paths of the files.
func Load(certFile, keyFile string) (tls.Certificate, error) {
	pair, err := load(certFile, keyFile)
	now := time.Now()
	switch {
	case err != nil:
		err = fmt.Errorf("can't use %s with %s: %w", certFile, keyFile, err)
	case now.After(pair.Leaf.NotAfter):
		err = fmt.Errorf("the certificate in %s expired on %s", certFile, pair.Leaf.NotAfter.Format(time.DateOnly))
	case now.Before(pair.Leaf.NotBefore):
		err = fmt.Errorf("the certificate in %s is not valid before %s", certFile,
			pair.Leaf.NotBefore.Format(time.RFC3339))
	}
	if err != nil {
		return tls.Certificate{}, err
	}
	return pair, nil
}

func load(certFile, keyFile string) (tls.Certificate, error) {
	cert, err := os.ReadFile(certFile)
	if err != nil {
		return tls.Certificate{}, err
	}
	key, err := os.ReadFile(keyFile)
	if err != nil {
		return tls.Certificate{}, err
	}
	if encrypted(key) {
		return tls.Certificate{}, fmt.Errorf("the key is encrypted; 'openssl pkey -in %s' decrypts it", keyFile)
	}
	return tls.X509KeyPair(cert, key)
}

// encrypted reports whether the private key in a PEM file is encrypted, as PKCS#8 or in OpenSSL's older
// form. The file may also contain certificates and parameters; the key is the one that X509KeyPair would use.
func encrypted(file []byte) bool {
	for block, rest := pem.Decode(file); block != nil; block, rest = pem.Decode(rest) {
		if strings.HasSuffix(block.Type, "PRIVATE KEY") {
			return block.Type == "ENCRYPTED PRIVATE KEY" || strings.Contains(block.Headers["Proc-Type"], "ENCRYPTED")
		}
	}
	return false
}
