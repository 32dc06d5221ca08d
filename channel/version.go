package channel

import (
	"fmt"
	"strings"

	"github.com/blang/semver/v4"
)

// parseVersion reads a version as people write it: 1, 1.4, v1.4.0.
func parseVersion(text string) (semver.Version, error) { return semver.ParseTolerant(text) }

// serverVersion reads the gitVersion of a cluster. Its pre-release does not count, so that 1.6.0-beta.1 matches >=1.6.0
// (K-12).
func serverVersion(gitVersion string) (semver.Version, error) {
	v, err := parseVersion(gitVersion)
	if err != nil {
		return v, fmt.Errorf("Kubernetes version %q cannot be read: %w", gitVersion, err) //nolint:staticcheck // a name
	}
	v.Pre = nil
	return v, nil
}

// matches reports whether a cluster's version is in a range, such as ">=1.4.0 <1.6.0 || 1.30.x". An empty range has them all.
func matches(rangeText string, server semver.Version) (in bool, err error) {
	if strings.TrimSpace(rangeText) == "" {
		return true, nil
	}
	// The library indexes past its input on some texts that are not ranges, such as "1x".
	defer func() {
		if p := recover(); p != nil {
			in, err = false, fmt.Errorf("Could not parse Range %q", rangeText) //nolint:staticcheck // in the words of the library
		}
	}()
	within, err := semver.ParseRange(rangeText)
	if err != nil {
		return false, err
	}
	if within == nil {
		return false, fmt.Errorf("Could not parse Range %q", rangeText) //nolint:staticcheck // in the words of the library
	}
	return within(server), nil
}
