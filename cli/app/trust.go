package app

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/sealift/sealift/installer/host/certificates"
)

// caFlag names the flag for CAs that the store of this machine does not have: of a company's proxy, or of a server of one's own.
const caFlag = "ca-cert"

// trust lets all that this process asks over TLS trust the CAs in a file. crypto/x509 reads the file that the variable names in
// place of the system's bundle, and besides it the system's folders, which have the same certificates one by one.
func trust(file string) error {
	if file == "" {
		return nil
	}
	if _, err := readCertificates(file); err != nil {
		return err
	}
	return os.Setenv("SSL_CERT_FILE", file)
}

func readCertificates(file string) (string, error) {
	text, err := os.ReadFile(file)
	if err == nil {
		_, err = certificates.Parse(text)
	}
	if err != nil {
		return "", UsageError("--%s %s: %v", caFlag, file, err)
	}
	return string(text), nil
}

// TrustedWord makes the CAs that a command trusts an option of the Installer, by which the node trusts them, too.
func TrustedWord(cmd *cobra.Command) ([]string, error) {
	file, err := cmd.Flags().GetString(caFlag)
	if err != nil || file == "" {
		return nil, err
	}
	text, err := readCertificates(file)
	if err != nil {
		return nil, err
	}
	return []string{fmt.Sprintf("kurl.caCertificates=%s", text)}, nil
}
