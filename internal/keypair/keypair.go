// Package keypair reads a certificate and its private key, and says which certificates a file has.
package keypair

import (
	"cmp"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"slices"
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

// Describe says in a few words which certificates a PEM file has: the name in the first one, how many there are, when
// the first of them expires, and the beginning of a hash, which is another one if any certificate is another one.
// Describe returns "" if path is empty, or if the file cannot be read or has none.
func Describe(path string) string {
	file, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	var certs []*x509.Certificate
	hash := sha256.New()
	for block, rest := pem.Decode(file); block != nil; block, rest = pem.Decode(rest) {
		if c, err := x509.ParseCertificate(block.Bytes); err == nil && block.Type == "CERTIFICATE" {
			certs = append(certs, c)
			hash.Write(c.Raw)
		}
	}
	if len(certs) == 0 {
		return ""
	}
	first := slices.MinFunc(certs, func(a, b *x509.Certificate) int { return a.NotAfter.Compare(b.NotAfter) })
	text := cmp.Or(certs[0].Subject.String(), strings.Join(certs[0].DNSNames, " "), certs[0].SerialNumber.String())
	if more := len(certs) - 1; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return fmt.Sprintf("%.128s, expires %s, SHA-256 %.4x", text, first.NotAfter.UTC().Format(time.RFC3339),
		hash.Sum(nil))
}
