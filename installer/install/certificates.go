package install

import (
	"context"
	"fmt"

	"github.com/sealift/sealift/installer/host"
	"github.com/sealift/sealift/installer/host/command"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/internal/trust"
)

// parseCertificates splits them; there may be none.
func (j *job) parseCertificates() ([][]byte, error) {
	if j.settings.certificates == "" {
		return nil, nil
	}
	all, err := trust.Parse([]byte(j.settings.certificates))
	if err != nil {
		return nil, fmt.Errorf("the Installer's kurl.caCertificates: %w", err)
	}
	return all, nil
}

// checkCertificates refuses invalid certificates, before anything is changed.
func (j *job) checkCertificates() error {
	_, err := j.parseCertificates()
	return err
}

// trustCertificates adds them to the host's store, or removes those of an earlier Installer. A containerd that runs reads the
// store again when it is started again.
func (i *Install) trustCertificates(ctx context.Context) (lifecycle.State, error) {
	trusted, err := i.parseCertificates()
	if err != nil {
		return nil, err
	}
	if err := host.TrustCAs(ctx, i.Log, trusted); err != nil {
		return nil, err
	}
	return nil, command.TryRestart(ctx, i.Log, "containerd")
}
