package install

import (
	"io"
	"sync/atomic"

	"github.com/sealift/sealift/installer/host/redact"
	"github.com/sealift/sealift/installer/journal/lifecycle"
)

// secrets returns what no log may contain: the secrets of a join, and values of the Installer with a secret's name.
func (j *job) secrets() (values []string) {
	if j.options.Join != nil {
		values = append(values, j.options.Join.Token, j.options.Join.CertificateKey)
	}
	for _, a := range j.spec.AddOns {
		values = appendSecrets(values, "", map[string]any(a.Options))
	}
	for _, s := range j.spec.Sections {
		values = appendSecrets(values, "", map[string]any(s.Options))
	}
	return values
}

// appendSecrets appends the texts in an option. name is the name of the nearest secret around them, or empty.
func appendSecrets(values []string, name string, option any) []string {
	switch v := option.(type) {
	case string:
		if name != "" {
			values = append(values, v)
		}
	case []any:
		for _, one := range v {
			values = appendSecrets(values, name, one)
		}
	case map[string]any:
		for key, one := range v {
			within := name
			if redact.IsSecretName(key) {
				within = key
			}
			values = appendSecrets(values, within, one)
		}
	}
	return values
}

// madeSecrets returns the secrets that a hook has left in the shell, such as a password that it made up.
func madeSecrets(changed lifecycle.State) (values []string) {
	for name, value := range changed {
		if redact.IsSecretName(name) {
			values = append(values, value)
		}
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
