// Package keypair reads a certificate and its private key, which may be encrypted
// with a pass: by PKCS#8, as OpenSSL does it (PBES2), or in the older form that its
// option -traditional asks for.
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

	"github.com/youmark/pkcs8"
)

// Load reads the files. pass opens the key if it is encrypted, and is ignored if it
// is not, as OpenSSL does; directive is where a user sets it, for errors.
func Load(certFile, keyFile, pass, directive string) (tls.Certificate, error) {
	pair, err := load(certFile, keyFile, pass, directive)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("can't use %s with %s: %w", certFile, keyFile, err)
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
			return tls.Certificate{}, fmt.Errorf("%s does not open the key: %w", directive, err)
		}
		key = pem.EncodeToMemory(block)
	}
	return tls.X509KeyPair(cert, key)
}

// find returns the private key in a file, which may hold certificates and
// parameters, too; nil: there is none. It is the one that X509KeyPair would take.
func find(file []byte) *pem.Block {
	for {
		block, rest := pem.Decode(file)
		if block == nil || strings.HasSuffix(block.Type, "PRIVATE KEY") {
			return block
		}
		file = rest
	}
}

// typePKCS8 says that all of a block is encrypted, by PKCS#8. In the older form
// a header says that what the type names is.
const typePKCS8 = "ENCRYPTED PRIVATE KEY"

func encrypted(block *pem.Block) bool {
	return block != nil && (block.Type == typePKCS8 || strings.Contains(block.Headers["Proc-Type"], "ENCRYPTED"))
}

// decrypt returns the key as it would be in a file that is not encrypted.
func decrypt(block *pem.Block, pass []byte) (*pem.Block, error) {
	if block.Type == typePKCS8 {
		key, err := parsePKCS8(block.Bytes, pass)
		if err != nil {
			return nil, err
		}
		der, err := x509.MarshalPKCS8PrivateKey(key)
		return &pem.Block{Type: "PRIVATE KEY", Bytes: der}, err
	}
	//lint:ignore SA1019 what follows says why
	der, err := x509.DecryptPEMBlock(block, pass) //nolint:staticcheck // weak against who has the file, but users have such keys, and Redis reads them
	if err != nil {
		return nil, err
	}
	if !whole(der) { // one wrong pass in 256 leaves bytes that end like a key's
		return nil, x509.IncorrectPasswordError
	}
	return &pem.Block{Type: block.Type, Bytes: der}, nil
}

// whole tells whether b is one ASN.1 value, as a key is, from the first byte to the
// last.
func whole(b []byte) bool {
	rest, err := asn1.Unmarshal(b, &asn1.RawValue{})
	return err == nil && len(rest) == 0
}

var errDamaged = errors.New("the file is damaged")

// parsePKCS8 is the library's function, which takes damage for a form that it does
// not know, and panics when the encrypted bytes, or what they were encrypted with,
// have a length that they cannot have.
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
