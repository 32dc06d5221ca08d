// Package bundlepolicy holds bundles against the policies that the administrator of a host sets in files: whose signatures images must have, and what
// must have been said about vulnerabilities, by whom, and how long ago. The signature of a bundle says that its maker vouches for all of it; these
// policies are for hosts that ask for another word, too. No flag of a command turns them off.
//
// The package verifies keys, and never identities: those are verified where packages are built. It looks for no vulnerabilities: a host has no
// database of them.
package bundlepolicy

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/sealift/sealift/bundle"
)

// The files with the policies of a host. Without one of them, it does not demand that.
const (
	ImagesFile          = "/etc/sealift/signatures.yaml" // signatures, as in sealift.yaml
	VulnerabilitiesFile = "/etc/sealift/vulnerabilities.yaml"
)

// maxNamed bounds the images or findings that an error names.
const maxNamed = 10

// RefusedError reports a bundle that a policy does not allow.
type RefusedError struct{ reason string }

func (e *RefusedError) Error() string { return e.reason }

func refuse(format string, args ...any) error { return &RefusedError{fmt.Sprintf(format, args...)} }

// Check refuses an archive that the policies of this host do not allow. The error is then a *RefusedError.
func Check(a *bundle.Archive) error {
	if err := CheckImages(a, ImagesFile); err != nil {
		return err
	}
	return CheckVulnerabilities(a, VulnerabilitiesFile, time.Now())
}

// CheckForeign refuses an archive of images that another program made, if this host has a policy: such an archive has neither signatures nor a verdict.
func CheckForeign(name string) error {
	for _, file := range []string{ImagesFile, VulnerabilitiesFile} {
		if _, err := os.Stat(file); err == nil {
			return refuse("%s demands more of images than %s has; bring them in a bundle", file, name)
		}
	}
	return nil
}

// listed returns the lines of a list, each after a line break. A long list is cut.
func listed(lines []string) string {
	if more := len(lines) - maxNamed; more > 0 {
		lines = append(lines[:maxNamed:maxNamed], fmt.Sprintf("and %d more", more))
	}
	var text strings.Builder
	for _, line := range lines {
		text.WriteString("\n" + line)
	}
	return text.String()
}
