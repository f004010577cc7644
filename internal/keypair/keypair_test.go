package keypair

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// file writes a PEM file and returns its path.
func file(t *testing.T, blocks ...*pem.Block) string {
	t.Helper()
	var all []byte
	for _, b := range blocks {
		all = append(all, pem.EncodeToMemory(b)...)
	}
	path := filepath.Join(t.TempDir(), "file.pem")
	require.NoError(t, os.WriteFile(path, all, 0o600))
	return path
}

// newPair returns a new key, its block and that of a self-signed certificate for it.
func newPair(t *testing.T) (key *ecdsa.PrivateKey, keyBlock, cert *pem.Block) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	return key, &pem.Block{Type: "PRIVATE KEY", Bytes: secret}, &pem.Block{Type: "CERTIFICATE", Bytes: der}
}

func TestKeyIsFoundAmongOtherBlocks(t *testing.T) {
	key, block, cert := newPair(t)
	path := file(t, &pem.Block{Type: "EC PARAMETERS", Bytes: []byte{5, 0}}, cert, block)
	pair, err := Load(path, path)
	require.NoError(t, err)
	require.Equal(t, key, pair.PrivateKey)
	require.NotNil(t, pair.Leaf)
}

func TestEncryptedKeysAreRefused(t *testing.T) {
	_, block, cert := newPair(t)
	for name, locked := range map[string]*pem.Block{
		"PKCS#8":     {Type: "ENCRYPTED PRIVATE KEY", Bytes: block.Bytes},
		"older form": {Type: "EC PRIVATE KEY", Headers: map[string]string{"Proc-Type": "4,ENCRYPTED", "DEK-Info": "AES-256-CBC,00"}, Bytes: block.Bytes},
	} {
		path := file(t, cert, locked)
		_, err := Load(path, path)
		require.EqualError(t, err, "can't use "+path+" with "+path+": the key is encrypted; 'openssl pkey -in "+path+"' decrypts it", name)
	}
}

func TestErrorsNameTheFiles(t *testing.T) {
	_, block, cert := newPair(t)
	_, _, otherCert := newPair(t)
	certFile, keyFile, other := file(t, cert), file(t, block), file(t, otherCert)
	_, err := Load(other, keyFile)
	require.ErrorContains(t, err, "can't use "+other+" with "+keyFile+": tls: private key ")
	empty := file(t)
	_, err = Load(certFile, empty)
	require.ErrorContains(t, err, "can't use "+certFile+" with "+empty+": tls: failed to find any PEM data in key input")
	_, err = Load(certFile, keyFile+".none")
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = Load(certFile+".none", keyFile)
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestDescribeTellsCertificatesApart(t *testing.T) {
	_, key, one := newPair(t)
	_, _, two := newPair(t)
	path := file(t, key, one)
	about := Describe(path)
	require.Regexp(t, `^1, expires 20..-..-..T..:..:..Z, SHA-256 [0-9a-f]{8}$`, about)
	require.Equal(t, about, Describe(file(t, one)), "without its key")
	require.NotEqual(t, about, Describe(file(t, two)))
	both := Describe(file(t, one, two))
	require.Regexp(t, `^1 and 1 more, expires `, both)
	require.NotEqual(t, both, Describe(file(t, two, one)))
	require.Empty(t, Describe(file(t, key)))
	require.Empty(t, Describe(""))
	require.Empty(t, Describe(path+".away"))
}
