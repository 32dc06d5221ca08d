// Package imagepolicy holds bundles against a policy that the administrator of a host sets: whose signatures images must have. The signature of a
// bundle says that its maker vouches for all of it; this policy is for hosts that ask for upstream's word, too.
//
// The package verifies keys, and never identities: those are verified where packages are built.
package imagepolicy

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/bundle/cosign"
)

// File has the policy of a host: signatures, as in sealift.yaml. A host without it demands nothing.
const File = "/etc/sealift/signatures.yaml"

// maxNamed bounds the images that an error names.
const maxNamed = 10

// Check refuses an archive with images that lack the signature that the policy in a file demands.
func Check(a *bundle.Archive, file string) error {
	policy, err := cosign.LoadPolicy(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("the policy of images: %w", err)
	}
	verdicts, err := policy.JudgeArchive(a, nil)
	if err != nil {
		return fmt.Errorf("hold its images against %s: %w", file, err)
	}
	var refused []string
	for _, v := range verdicts {
		if v.State == cosign.Refused {
			refused = append(refused, fmt.Sprintf("image %s (%s): %s", v.Ref, v.Digest, v.Reason))
		}
	}
	if len(refused) == 0 {
		return nil
	}
	if more := len(refused) - maxNamed; more > 0 {
		refused = append(refused[:maxNamed], fmt.Sprintf("and %d more", more))
	}
	return fmt.Errorf("images lack signatures that this host demands; build their packages with the signatures, or change %s\n%s", file, strings.Join(refused, "\n"))
}
