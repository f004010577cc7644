// Package keypair reads a certificate and its private key. The key may be encrypted with
// a password: as PKCS#8, OpenSSL's default (PBES2), or in the older form of its option
// -traditional.
package keypair

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/youmark/pkcs8"
)

// Load reads a certificate and its key from PEM files. pass is the key's password. Like OpenSSL,
// Load ignores it if the key is not encrypted. directive is the name of the setting of pass, for
// errors. A certificate that is not valid now is an error. Errors contain the paths of the files but not
// the password.
func Load(certFile, keyFile, pass, directive string) (tls.Certificate, error) {
	pair, err := load(certFile, keyFile, pass, directive)
	now := time.Now()
	switch {
	case err != nil:
		err = fmt.Errorf("can't use %s with %s: %w", certFile, keyFile, err)
	case now.After(pair.Leaf.NotAfter):
		err = fmt.Errorf("the certificate in %s expired on %s", certFile, pair.Leaf.NotAfter.Format(time.DateOnly))
	case now.Before(pair.Leaf.NotBefore):
		err = fmt.Errorf("the certificate in %s is not valid before %s", certFile, pair.Leaf.NotBefore.Format(time.RFC3339))
	}
	if err != nil {
		return tls.Certificate{}, err
	}
	return pair, nil
}

func load(certFile, keyFile, pass, directive string) (tls.Certificate, error) {
	cert, err := os.ReadFile(certFile)
	if err != nil {
		return tls.Certificate{}, err
	}
	key, err := os.ReadFile(keyFile)
	if err != nil {
		return tls.Certificate{}, err
	}
	if block := find(key); encrypted(block) {
		if pass == "" {
			return tls.Certificate{}, fmt.Errorf("the key is encrypted, and there is no %s", directive)
		}
		if block, err = decrypt(block, []byte(pass)); err != nil {
			return tls.Certificate{}, fmt.Errorf("%s does not decrypt the key: %w", directive, err)
		}
		key = pem.EncodeToMemory(block)
	}
	return tls.X509KeyPair(cert, key)
}

// find returns the private key in a file, or nil if there is none. The file may also
// contain certificates and parameters; find returns the key that X509KeyPair would use.
func find(file []byte) *pem.Block {
	for {
		block, rest := pem.Decode(file)
		if block == nil || strings.HasSuffix(block.Type, "PRIVATE KEY") {
			return block
		}
		file = rest
	}
}

// typePKCS8 is the type of a block that is encrypted as PKCS#8. In the older form, the
// type is that of the key and a header shows the encryption.
const typePKCS8 = "ENCRYPTED PRIVATE KEY"

// encrypted reports whether the key in a block, which may be nil, is encrypted.
func encrypted(block *pem.Block) bool {
	return block != nil && (block.Type == typePKCS8 || strings.Contains(block.Headers["Proc-Type"], "ENCRYPTED"))
}

// decrypt returns a block with the decrypted key.
func decrypt(block *pem.Block, pass []byte) (*pem.Block, error) {
	if block.Type == typePKCS8 {
		key, err := parsePKCS8(block.Bytes, pass)
		if err != nil {
			return nil, err
		}
		der, err := x509.MarshalPKCS8PrivateKey(key)
		return &pem.Block{Type: "PRIVATE KEY", Bytes: der}, err
	}
	//lint:ignore SA1019 see the next line
	der, err := x509.DecryptPEMBlock(block, pass) //nolint:staticcheck // the format is weak, but users have such keys and Redis reads them
	if err != nil {
		return nil, err
	}
	if !versioned(der) { // one wrong password in 256 gives valid padding
		return nil, x509.IncorrectPasswordError
	}
	return &pem.Block{Type: block.Type, Bytes: der}, nil
}

// whole reports whether b is exactly one ASN.1 value, as an encrypted key of PKCS#8 is.
func whole(b []byte) bool {
	rest, err := asn1.Unmarshal(b, &asn1.RawValue{})
	return err == nil && len(rest) == 0
}

// versioned reports whether b is exactly one ASN.1 sequence whose first element is a version
// number, as every key of the older form is.
func versioned(b []byte) bool {
	rest, err := asn1.Unmarshal(b, &struct{ Version int }{})
	return err == nil && len(rest) == 0
}

var errDamaged = errors.New("the file is damaged")

// parsePKCS8 calls pkcs8.ParsePKCS8PrivateKey, which reports damaged files as an unknown
// format, and panics if the ciphertext or its parameters have an impossible length.
func parsePKCS8(der, pass []byte) (key any, err error) {
	defer func() {
		if recover() != nil {
			key, err = nil, errDamaged
		}
	}()
	if !whole(der) {
		return nil, errDamaged
	}
	return pkcs8.ParsePKCS8PrivateKey(der, pass)
}
