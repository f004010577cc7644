package keypair

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/youmark/pkcs8"
)

const pass = "hush"

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

// certificate returns a self-signed certificate for a key.
func certificate(t *testing.T, key crypto.Signer) *pem.Block {
	t.Helper()
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	return &pem.Block{Type: "CERTIFICATE", Bytes: der}
}

// modern encrypts a key as openssl genpkey does.
func modern(t *testing.T, key any, cipher pkcs8.Cipher, kdf pkcs8.KDFOpts) *pem.Block {
	t.Helper()
	der, err := pkcs8.MarshalPrivateKey(key, []byte(pass), &pkcs8.Opts{Cipher: cipher, KDFOpts: kdf})
	require.NoError(t, err)
	return &pem.Block{Type: "ENCRYPTED PRIVATE KEY", Bytes: der}
}

// old encrypts a key as openssl does with -traditional.
func old(t *testing.T, key any, cipher x509.PEMCipher) *pem.Block {
	t.Helper()
	var kind string
	var der []byte
	switch key := key.(type) {
	case *rsa.PrivateKey:
		kind, der = "RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(key)
	case *ecdsa.PrivateKey:
		var err error
		kind = "EC PRIVATE KEY"
		der, err = x509.MarshalECPrivateKey(key)
		require.NoError(t, err)
	}
	//lint:ignore SA1019 the test needs a key in the old format
	block, err := x509.EncryptPEMBlock(rand.Reader, kind, der, []byte(pass), cipher) //nolint:staticcheck // the test needs a key in the old format
	require.NoError(t, err)
	return block
}

var (
	pbkdf2SHA1   = pkcs8.PBKDF2Opts{SaltSize: 8, IterationCount: 2048, HMACHash: crypto.SHA1}
	pbkdf2SHA256 = pkcs8.PBKDF2Opts{SaltSize: 16, IterationCount: 2048, HMACHash: crypto.SHA256}
	scrypt       = pkcs8.ScryptOpts{SaltSize: 8, CostParameter: 1 << 4, BlockSize: 8, ParallelizationParameter: 1}
)

func newEC(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	return key
}

func TestEncryptedKeysAreRead(t *testing.T) {
	ec := newEC(t)
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	for _, key := range []crypto.Signer{ec, rsaKey, ed} {
		blocks := []*pem.Block{
			modern(t, key, pkcs8.AES256CBC, pbkdf2SHA256), modern(t, key, pkcs8.AES128CBC, scrypt), modern(t, key, pkcs8.TripleDESCBC, pbkdf2SHA1),
		}
		if _, ok := key.(ed25519.PrivateKey); !ok { // Ed25519 keys have no older form
			blocks = append(blocks, old(t, key, x509.PEMCipherAES256), old(t, key, x509.PEMCipher3DES))
		}
		cert := certificate(t, key)
		for _, block := range blocks {
			// The file has other blocks before the key.
			keyFile := file(t, &pem.Block{Type: "EC PARAMETERS", Bytes: []byte{5, 0}}, cert, block)
			pair, err := Load(keyFile, keyFile, pass, "the-pass")
			require.NoError(t, err)
			require.Equal(t, key, pair.PrivateKey)
			require.NotNil(t, pair.Leaf)

			certFile := file(t, cert)
			_, err = Load(certFile, keyFile, "", "the-pass")
			require.EqualError(t, err, "can't use "+certFile+" with "+keyFile+": the key is encrypted, and there is no the-pass")
			_, err = Load(certFile, keyFile, "hushhush", "the-pass")
			require.ErrorContains(t, err, "can't use "+certFile+" with "+keyFile+": the-pass does not decrypt the key: ")
			require.ErrorContains(t, err, "incorrect")
			require.NotContains(t, err.Error(), "hush")
			other := file(t, certificate(t, newEC(t)))
			_, err = Load(other, keyFile, pass, "the-pass")
			require.ErrorContains(t, err, "can't use "+other+" with "+keyFile+": tls: private key ")
		}
	}
}

func TestPasswordOfAnUnencryptedKeyIsIgnored(t *testing.T) {
	key := newEC(t)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	path := file(t, certificate(t, key), &pem.Block{Type: "PRIVATE KEY", Bytes: der})
	for _, p := range []string{"", pass} {
		pair, err := Load(path, path, p, "the-pass")
		require.NoError(t, err)
		require.Equal(t, key, pair.PrivateKey)
	}
}

// In the older form only the padding shows that a password is wrong, and one wrong password in
// 256 gives valid padding by chance. The error must be the same, whatever the decrypted bytes are.
func TestWrongPasswordWithValidPaddingIsReportedAsWrong(t *testing.T) {
	for name, der := range map[string][]byte{
		"not ASN.1":                    []byte("garbage"),
		"more than one value":          {asn1.TagNull, 0, asn1.TagNull, 0},
		"a value, but not a key":       {asn1.TagOctetString, 5, 1, 2, 3, 4, 5},
		"a sequence without a version": {asn1.TagSequence | 0x20, 2, asn1.TagNull, 0},
	} {
		t.Run(name, func(t *testing.T) {
			//lint:ignore SA1019 the test needs a block in the old format
			block, err := x509.EncryptPEMBlock(rand.Reader, "EC PRIVATE KEY", der, []byte(pass), x509.PEMCipherAES256) //nolint:staticcheck // the test needs a block in the old format
			require.NoError(t, err)
			path := file(t, certificate(t, newEC(t)), block)
			_, err = Load(path, path, pass, "the-pass")
			require.EqualError(t, err, "can't use "+path+" with "+path+": the-pass does not decrypt the key: x509: decryption password incorrect")
		})
	}
}

// If any byte is changed, or the file is truncated anywhere, Load returns an error that names the
// file, or the right key.
func TestDamagedFilesGiveAnErrorOrTheRightKey(t *testing.T) {
	key := newEC(t)
	cert := file(t, certificate(t, key))
	for _, block := range []*pem.Block{modern(t, key, pkcs8.AES256CBC, pbkdf2SHA256), modern(t, key, pkcs8.AES256CBC, scrypt), old(t, key, x509.PEMCipherAES256)} {
		path := file(t, block)
		try := func(b []byte) error {
			damaged := *block
			damaged.Bytes = b
			require.NoError(t, os.WriteFile(path, pem.EncodeToMemory(&damaged), 0o600))
			pair, err := Load(cert, path, pass, "the-pass")
			if err == nil {
				require.Equal(t, key, pair.PrivateKey)
				return nil
			}
			require.ErrorContains(t, err, "can't use "+cert+" with "+path+": ")
			return err
		}
		for i := range block.Bytes {
			require.ErrorContains(t, try(block.Bytes[:i]), "the-pass does not decrypt the key: ")
			flipped := append([]byte(nil), block.Bytes...)
			flipped[i] ^= 1
			_ = try(flipped) // both results are possible: not every bit matters
		}
		require.NoError(t, try(block.Bytes))
	}

	block := modern(t, key, pkcs8.AES256CBC, pbkdf2SHA256)
	path := file(t, block)
	for content, want := range map[string]string{
		"": "failed to find any PEM data in key input",
		string(pem.EncodeToMemory(&pem.Block{Type: block.Type, Bytes: block.Bytes[:100]})):                                     "the-pass does not decrypt the key: the file is damaged",
		string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Headers: map[string]string{"Proc-Type": "4,ENCRYPTED"}})): "no DEK-Info header",
	} {
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		_, err := Load(cert, path, pass, "the-pass")
		require.ErrorContains(t, err, want)
	}
	_, err := Load(cert, path+".none", pass, "the-pass")
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = Load(cert+".none", path, pass, "the-pass")
	require.ErrorIs(t, err, os.ErrNotExist)
}

// A ciphertext that is not a multiple of the block size makes the library panic.
func TestCiphertextOfAnImpossibleLengthIsAnError(t *testing.T) {
	key := newEC(t)
	block := modern(t, key, pkcs8.AES256CBC, pbkdf2SHA256)
	var encrypted struct {
		Algorithm pkix.AlgorithmIdentifier
		Encrypted []byte
	}
	_, err := asn1.Unmarshal(block.Bytes, &encrypted)
	require.NoError(t, err)
	encrypted.Encrypted = encrypted.Encrypted[1:]
	block.Bytes, err = asn1.Marshal(encrypted)
	require.NoError(t, err)
	path := file(t, certificate(t, key), block)
	_, err = Load(path, path, pass, "the-pass")
	require.EqualError(t, err, "can't use "+path+" with "+path+": the-pass does not decrypt the key: the file is damaged")
}
