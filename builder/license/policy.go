package license

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/sealift/sealift/bundle/ocilayout"
	"github.com/sealift/sealift/internal/sha256hex"
)

// Policy says which licenses may not be carried.
type Policy struct {
	// Forbidden are SPDX identifiers, and NoAssertion for software that states no license.
	Forbidden []string
	// Exceptions except from it, each for a time.
	Exceptions []Exception
}

// Exception permits a forbidden license for a reason and a time. It is for an image, or a package in any place, or a package in an image.
type Exception struct {
	License string
	Image   string // a repository, or what it begins with up to a slash, such as docker.io/library; empty for all places
	Package string // the name of a package, module or file; empty for all that an image has
	Reason  string
	Until   time.Time // the last day, in UTC
}

// permits reports whether an exception is about a license of the named software in an image. The repository is empty outside of images.
func (e Exception) permits(license, repository, name string) bool {
	return e.License == license && (e.Image == "" || repository != "" && ocilayout.Below(repository, e.Image)) && (e.Package == "" || e.Package == name)
}

// Over reports whether the last day of an exception is over.
func (e Exception) Over(now time.Time) bool { return !now.Before(e.Until.AddDate(0, 0, 1)) }

// Current returns the policy without the exceptions that are over.
func (p Policy) Current(now time.Time) Policy {
	current := Policy{Forbidden: p.Forbidden}
	for _, e := range p.Exceptions {
		if !e.Over(now) {
			current.Exceptions = append(current.Exceptions, e)
		}
	}
	return current
}

// Digest stands for the policy. It is empty for one that forbids nothing.
func (p Policy) Digest() (string, error) {
	if len(p.Forbidden) == 0 {
		return "", nil
	}
	data, err := json.Marshal(p)
	if err != nil {
		return "", fmt.Errorf("encode the policy of licenses: %w", err)
	}
	return sha256hex.Of(data), nil
}

// Verdict is what a policy says of software.
type Verdict struct {
	// Forbidden are the licenses that are refused.
	Forbidden []string
	// Applied are the exceptions that permit forbidden licenses.
	Applied []Exception
	// Over are exceptions that permitted refused ones until they were over.
	Over []Exception
}

// Judge holds the license expression of software against the policy. repository is that of its image, or empty.
func (p Policy) Judge(expression, repository, name string, now time.Time) Verdict {
	var v Verdict
	forbidden := slices.Clone(p.Forbidden)
	for _, id := range Forbidden(expression, p.Forbidden) {
		for _, e := range p.Exceptions {
			switch {
			case !e.permits(id, repository, name):
			case e.Over(now):
				v.Over = append(v.Over, e)
			default:
				v.Applied = append(v.Applied, e)
				forbidden = slices.DeleteFunc(forbidden, func(other string) bool { return other == id })
			}
		}
	}
	v.Forbidden = Forbidden(expression, forbidden)
	v.Over = slices.DeleteFunc(v.Over, func(e Exception) bool { return !slices.Contains(v.Forbidden, e.License) })
	return v
}

// String says why and until when an exception permits, or permitted, a license.
func (e Exception) String() string {
	return "exception until " + e.Until.Format(time.DateOnly) + ": " + e.Reason
}
