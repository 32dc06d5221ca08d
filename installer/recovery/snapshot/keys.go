package snapshot

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"filippo.io/age"

	"github.com/sealift/sealift/internal/fips"
)

// maxKeys bounds a file with keys or a passphrase, in bytes.
const maxKeys = 1 << 16

// Recipients reads public keys of age: one itself, such as age1…, or the name of a file with one on each line.
// In FIPS mode it refuses them.
func Recipients(key string) ([]age.Recipient, error) {
	if err := fips.Snapshots.Refuse(); err != nil {
		return nil, err
	}
	text := []byte(key)
	if !strings.HasPrefix(key, "age1") {
		var err error
		if text, err = readSmall(key); err != nil {
			return nil, fmt.Errorf("public key %q is not one of age and not a file with some: %w", key, err)
		}
	}
	keys, err := age.ParseRecipients(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("public key %s: %w", key, err)
	}
	return keys, nil
}

// Identities reads a file with private keys of age, one on each line.
func Identities(file string) ([]age.Identity, error) {
	text, err := readSmall(file)
	if err != nil {
		return nil, err
	}
	keys, err := age.ParseIdentities(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("%s has no private key of age: %w", file, err)
	}
	return keys, nil
}

// PassphraseFile reads a passphrase: the content of a file without the end of its line.
func PassphraseFile(file string) ([]byte, error) {
	text, err := readSmall(file)
	if err != nil {
		return nil, err
	}
	return bytes.TrimRight(text, "\r\n"), nil
}

// errNoPassphrase refuses what would protect nothing.
var errNoPassphrase = errors.New("the passphrase is empty")

// Lock makes a recipient from a passphrase. In FIPS mode it refuses.
func Lock(passphrase []byte) ([]age.Recipient, error) {
	if err := fips.Snapshots.Refuse(); err != nil {
		return nil, err
	}
	if len(passphrase) == 0 {
		return nil, errNoPassphrase
	}
	r, err := age.NewScryptRecipient(string(passphrase))
	return []age.Recipient{r}, err
}

// maxWork is the work factor that age writes. Each further one doubles the 256 MiB of memory that a passphrase takes, and any writer to a
// store chooses it.
const maxWork = 18

// Unlock makes an identity of a passphrase.
func Unlock(passphrase []byte) ([]age.Identity, error) {
	if len(passphrase) == 0 {
		return nil, errNoPassphrase
	}
	i, err := age.NewScryptIdentity(string(passphrase))
	if err != nil {
		return nil, err
	}
	i.SetMaxWorkFactor(maxWork)
	return []age.Identity{i}, nil
}

// HeadSize is how many bytes IsEncrypted and WantsPassphrase need.
const HeadSize = 64

// ageHeader begins every file that age has encrypted.
const ageHeader = "age-encryption.org/v1\n"

// IsEncrypted reports whether a file that begins with head can be a snapshot.
func IsEncrypted(head []byte) bool { return bytes.HasPrefix(head, []byte(ageHeader)) }

// WantsPassphrase reports whether a snapshot that begins with these bytes was encrypted with a passphrase, not to a key.
func WantsPassphrase(head []byte) bool {
	return bytes.HasPrefix(head, []byte(ageHeader+"-> scrypt "))
}

// GenerateKey makes a key pair: the content of a file with the private key, as age-keygen writes it, and the public key. In
// FIPS mode it refuses that.
func GenerateKey() (private []byte, public string, err error) {
	if err := fips.Snapshots.Refuse(); err != nil {
		return nil, "", err
	}
	key, err := age.GenerateX25519Identity()
	if err != nil {
		return nil, "", err
	}
	public = key.Recipient().String()
	return fmt.Appendf(nil, "# created: %s\n# public key: %s\n%s\n", time.Now().UTC().Format(time.RFC3339), public, key), public, nil
}

func readSmall(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxKeys+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxKeys {
		return nil, fmt.Errorf("%s has more than %d bytes, which is too much for keys", name, maxKeys)
	}
	return text, nil
}
