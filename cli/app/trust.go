package app

import "github.com/sealift/sealift/internal/trust"

// caFlag names the flag for CAs that the store of this machine does not have: of a company's proxy, or of a server of one's own.
const caFlag = "ca-cert"

// readCAs reads the CAs of the flag. Without a file the command trusts those of the system.
func readCAs(file string) (trust.CAs, error) {
	if file == "" {
		return trust.CAs{}, nil
	}
	all, err := trust.Read(file)
	if err != nil {
		return trust.CAs{}, UsageError("--%s %s: %v", caFlag, file, err)
	}
	return all, nil
}

// TrustedWords turns the CAs that a command trusts into an option of the Installer, so that the node trusts them, too.
func (a *App) TrustedWords() []string {
	if a.CAs.Text() == "" {
		return nil
	}
	return []string{"kurl.caCertificates=" + a.CAs.Text()}
}
