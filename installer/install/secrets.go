package install

import (
	"bytes"
	"io"
	"sync"
	"sync/atomic"

	"github.com/sealift/sealift/installer/host/redact"
	"github.com/sealift/sealift/installer/journal/node"
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

// hookOutput receives what hooks print. It goes to the log, in which secrets are masked. People see the warnings, masked, too. The outro
// hooks print for people, and may be the only place with a password that an add-on generated: people see it unmasked.
type hookOutput struct {
	log    *node.Log
	people io.Writer // nil if they see all output anyway
	outro  atomic.Bool

	mu       sync.Mutex
	redactor *redact.Redactor
	warnings *redact.Writer
}

func newHookOutput(log *node.Log, people io.Writer) *hookOutput {
	redactor := redact.New()
	return &hookOutput{log: log, people: people, redactor: redactor, warnings: redactor.Writer(onlyWarnings{people})}
}

// hide masks these values from now on.
func (o *hookOutput) hide(values ...string) {
	o.log.Hide(values...)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.redactor.Hide(values...)
}

// Write implements io.Writer.
func (o *hookOutput) Write(p []byte) (int, error) {
	switch {
	case o.people == nil:
	case o.outro.Load():
		_, _ = o.people.Write(p) // a terminal that is gone must not stop the hooks
	default:
		o.mu.Lock()
		_, _ = o.warnings.Write(p)
		o.mu.Unlock()
	}
	return o.log.Write(p)
}

// onlyWarnings passes on the lines that logWarn prints.
type onlyWarnings struct{ to io.Writer }

// Write gets one line, and never fails.
func (w onlyWarnings) Write(line []byte) (int, error) {
	if bytes.HasPrefix(line, []byte("warning: ")) {
		_, _ = w.to.Write(line)
	}
	return len(line), nil
}
