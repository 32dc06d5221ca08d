package caaph

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// defaultTimeout is how long Helm waits by default.
const defaultTimeout = 10 * time.Minute

// Default sets the defaults of admission (C-4, X-34).
func (c *Chart) Default() {
	if c.ReleaseNamespace == "" {
		c.ReleaseNamespace = "default"
	}
	if c.Options.Atomic {
		c.Options.Wait = true
	}
	if c.Options.Timeout == nil {
		c.Options.Timeout = &metav1.Duration{Duration: defaultTimeout}
	}
}

// Validate checks what admission does (C-5). The allowed schemes go beyond https and oci; an operator lists them.
func (c *Chart) Validate(allowed []string) error {
	if err := validateURL(c.RepoURL, allowed); err != nil {
		return fmt.Errorf("spec.repoURL %q: %w", c.RepoURL, err)
	}
	return nil
}

func validateURL(text string, allowed []string) error {
	u, err := url.Parse(text)
	if err != nil {
		return err
	}
	scheme, _, _ := strings.Cut(text, ":")
	switch {
	case u.Scheme == "https", scheme == "oci":
	case slices.Contains(allowed, u.Scheme) && u.Scheme == "file":
		return nil
	case slices.Contains(allowed, u.Scheme):
	default:
		return errors.New("the scheme must be https or oci")
	}
	if u.Hostname() == "" {
		return errors.New("it has no host")
	}
	return nil
}

// ValidateChartUpdate refuses to change the strategy of a HelmChartProxy.
func ValidateChartUpdate(old, now HelmChartProxySpec) error {
	return immutable("reconcileStrategy", strategy(old.Chart), strategy(now.Chart))
}

// ValidateReleaseUpdate refuses to change what makes a release another one.
func ValidateReleaseUpdate(old, now HelmReleaseProxySpec) error {
	return errors.Join(
		immutable("repoURL", old.RepoURL, now.RepoURL),
		immutable("chartName", old.ChartName, now.ChartName),
		immutable("namespace", old.ReleaseNamespace, now.ReleaseNamespace),
		immutable("reconcileStrategy", strategy(old.Chart), strategy(now.Chart)),
	)
}

// strategy returns the reconcile strategy. An empty one means Continuous, so writing it is not a change.
func strategy(c Chart) string { return cmp.Or(c.ReconcileStrategy, Continuous) }

func immutable(field, old, now string) error {
	if old == now {
		return nil
	}
	return fmt.Errorf("spec.%s %q: field is immutable", field, now)
}
