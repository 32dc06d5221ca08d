package app

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/sealift/sealift/bundle/signature"
)

// PassphraseVariable has the passphrase of a private key where nobody can be asked.
const PassphraseVariable = "SEALIFT_KEY_PASSPHRASE"

// SigningKey reads the private key of a file; without a name, it returns no key.
func (a *App) SigningKey(name string) (*signature.Key, error) {
	if name == "" {
		return nil, nil
	}
	data, err := readKeyFile(name)
	if err != nil {
		return nil, err
	}
	var passphrase []byte
	if signature.IsEncrypted(data) {
		if passphrase, err = a.Passphrase(PassphraseVariable, "passphrase of "+name+": ", false); err != nil {
			return nil, err
		}
	}
	key, err := signature.ParseKey(data, passphrase)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return key, nil
}

// PublicKeys reads the public keys of files.
func PublicKeys(names []string) ([]signature.PublicKey, error) {
	var keys []signature.PublicKey
	for _, name := range names {
		data, err := readKeyFile(name)
		if err != nil {
			return nil, err
		}
		key, err := signature.ParsePublicKey(data)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// AddSignersFlag adds the flag for keys that must have signed the packages of a store.
func AddSignersFlag(cmd *cobra.Command, names *[]string) {
	cmd.Flags().StringArrayVar(names, "require-signed", nil, "public key that each package must be signed with; may be repeated, and one match is enough")
	_ = cmd.MarkFlagFilename("require-signed", "pub")
}

func readKeyFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, signature.MaxSize))
}
