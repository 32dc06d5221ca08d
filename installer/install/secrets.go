package install

import (
	"io"
	"sync/atomic"

	"github.com/sealift/sealift/installer/host/redact"
)

// secrets returns what no log may contain: the secrets of a join, and values of the Installer with a secret's name.
func (j *job) secrets() (values []string) {
	if j.options.Join != nil {
		values = append(values, j.options.Join.Token, j.options.Join.CertificateKey)
	}
	for _, a := range j.spec.AddOns {
		values = append(values, redact.Secrets(map[string]any(a.Options))...)
	}
	for _, s := range j.spec.Sections {
		values = append(values, redact.Secrets(map[string]any(s.Options))...)
	}
	return values
}

// hookOutput receives what hooks print. It goes to the log, in which secrets are masked. The outro hooks print for people, and
// may be the only place with a password that an add-on generated: people see it unmasked.
type hookOutput struct {
	log    io.Writer
	people io.Writer // nil if they see all output anyway
	outro  atomic.Bool
}

// Write implements io.Writer.
func (o *hookOutput) Write(p []byte) (int, error) {
	if o.people != nil && o.outro.Load() {
		_, _ = o.people.Write(p) // a terminal that is gone must not stop the hooks
	}
	return o.log.Write(p)
}
