package bundlepolicy

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/bundle/cosign"
)

// CheckImages refuses an archive with images that lack the signature that the policy in a file demands.
func CheckImages(a *bundle.Archive, file string) error {
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
	return refuse("images lack signatures that this host demands; build their packages with the signatures, or change %s%s", file, listed(refused))
}
