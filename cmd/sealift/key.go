package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/sealift/sealift/bundle/signature"
)

// passphraseVariable has the passphrase of a private key where nobody can be asked.
const passphraseVariable = "SEALIFT_KEY_PASSPHRASE"

func (a *app) keyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "key",
		Short: "Make keys that sign packages and bundles",
		Args:  cobra.NoArgs,
	}
	cmd.AddCommand(a.keyGenerateCommand())
	return cmd
}

func (a *app) keyGenerateCommand() *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "generate",
		Short: "Make a pair of keys",
		Long: `Make a private key that signs packages and bundles, and a public key that verifies them: ECDSA on the curve P-256,
in cosign's formats, so that cosign can use either.

The private key is encrypted with a passphrase. It is taken from ` + passphraseVariable + ` if that is set, also to nothing,
which protects nothing; otherwise it is asked for. Files that exist are not replaced.`,
		Example: `  sealift key generate --out release
  sealift build addons/flannel/0.26.7 --key release.key
  sealift verify flannel-0.26.7.tar.gz --key release.pub`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return a.generateKey(out) },
	}
	cmd.Flags().StringVar(&out, "out", "sealift", "the files are named so, with .key and .pub at their ends")
	return cmd
}

func (a *app) generateKey(out string) error {
	key, err := signature.Generate()
	if err != nil {
		return err
	}
	passphrase, err := a.passphrase("passphrase of the new key: ", true)
	if err != nil {
		return err
	}
	private, err := key.Marshal(passphrase)
	if err != nil {
		return err
	}
	public, err := key.Public()
	if err != nil {
		return err
	}
	if err := writeNew(out+".key", 0o600, private); err != nil {
		return err
	}
	if err := writeNew(out+".pub", 0o644, public.Marshal()); err != nil {
		return err
	}
	fmt.Fprintf(a.out, "private key: %s.key\npublic key: %s.pub, %s\n", out, out, public.Fingerprint())
	return nil
}

// writeNew writes a file that must not be there.
func writeNew(name string, mode os.FileMode, data []byte) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if errors.Is(err, os.ErrExist) {
		return fmt.Errorf("%s exists and is not replaced; remove it or choose another name with --out", name)
	}
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Sync(), f.Close())
}

// signingKey reads the private key of a file; no name gives no key.
func (a *app) signingKey(name string) (*signature.Key, error) {
	if name == "" {
		return nil, nil
	}
	data, err := readKeyFile(name)
	if err != nil {
		return nil, err
	}
	var passphrase []byte
	if signature.IsEncrypted(data) {
		if passphrase, err = a.passphrase("passphrase of "+name+": ", false); err != nil {
			return nil, err
		}
	}
	key, err := signature.ParseKey(data, passphrase)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return key, nil
}

// publicKeys reads the public keys of files.
func publicKeys(names []string) ([]signature.PublicKey, error) {
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

// addSignersFlag adds the flag for keys that must have signed the packages of a store.
func addSignersFlag(cmd *cobra.Command, names *[]string) {
	cmd.Flags().StringArrayVar(names, "require-signed", nil, "public key that each package must be signed with; may be repeated, then one of them is enough")
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

// passphrase takes a passphrase from the environment, or asks for it, twice if it is new.
func (a *app) passphrase(question string, isNew bool) ([]byte, error) {
	if text, ok := os.LookupEnv(passphraseVariable); ok {
		return []byte(text), nil
	}
	f, ok := a.in.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return nil, usageError("a passphrase is needed and there is no terminal to ask on; set %s", passphraseVariable)
	}
	first, err := a.askHidden(f, question)
	if err != nil || !isNew {
		return first, err
	}
	second, err := a.askHidden(f, "once more: ")
	if err == nil && !bytes.Equal(first, second) {
		err = errors.New("the passphrases differ; nothing was written")
	}
	return first, err
}

func (a *app) askHidden(terminal *os.File, question string) ([]byte, error) {
	fmt.Fprint(a.errOut, question)
	answer, err := term.ReadPassword(int(terminal.Fd()))
	fmt.Fprintln(a.errOut)
	return answer, err
}
