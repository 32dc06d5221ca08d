package build

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/sealift/sealift/bundle/signature"
	"github.com/sealift/sealift/cli/app"
)

func (a commands) keyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "key",
		Short: "Create keys for signing packages and bundles",
		Args:  cobra.NoArgs,
	}
	cmd.AddCommand(a.keyGenerateCommand())
	return cmd
}

func (a commands) keyGenerateCommand() *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "generate",
		Short: "Create a key pair",
		Long: `Create a private key that signs packages and bundles, and a public key that verifies them: ECDSA on the curve P-256,
in cosign's formats, so that cosign can use both.

The private key is encrypted with a passphrase from ` + app.PassphraseVariable + `, or from the terminal if that is not set.
An empty passphrase protects nothing. Existing files are not replaced.`,
		Example: `  sealift key generate --out release
  sealift build addons/flannel/0.26.7 --key release.key
  sealift verify flannel-0.26.7.tar.gz --key release.pub`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return a.generateKey(out) },
	}
	cmd.Flags().StringVar(&out, "out", "sealift", "file name without the endings .key and .pub")
	return cmd
}

func (a commands) generateKey(out string) error {
	key, err := signature.Generate()
	if err != nil {
		return err
	}
	passphrase, err := a.Passphrase(app.PassphraseVariable, "passphrase of the new key: ", true)
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
	fmt.Fprintf(a.Out, "private key: %s.key\npublic key: %s.pub, %s\n", out, out, public.Fingerprint())
	return nil
}

// writeNew creates a file. It fails if the file exists.
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
