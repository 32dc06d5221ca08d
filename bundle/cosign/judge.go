package cosign

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/bundle/ocilayout"
)

// Keyless verifies identities.
type Keyless interface {
	// Verify returns who signed the image with a digest, if it is one of the identities of the rule.
	Verify(r Rule, s Signature, digest string) (who string, err error)
}

// State is what is known about the signatures of an image.
type State string

// The states.
const (
	Verified  State = "verified"    // one of the keys or identities of its rule signed it
	Refused   State = "refused"     // none did, and the policy demands it
	Unchecked State = "not checked" // has signatures, and no rule demands one
	Unsigned  State = "unsigned"    // has none, and no rule demands one
)

// Verdict is the result for one image.
type Verdict struct {
	Ref      string   `json:"ref"`
	Digest   string   `json:"digest"`
	State    State    `json:"state"`
	By       string   `json:"by,omitempty"`     // who signed, of a verified image
	Reason   string   `json:"reason,omitempty"` // why it was refused
	Attached []string `json:"attached"`         // what upstream attached, such as "cosign signature"
}

// RefusedError reports an image without the signature that the policy demands.
type RefusedError struct {
	Verdict
	hint string
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("image %s (%s): %s", e.Ref, e.Digest, e.Reason)
}

// Hint names the way out.
func (e *RefusedError) Hint() string { return e.hint }

// Judge holds an image against the policy. keyless may be nil: then an image with a rule for identities alone is refused. A refused image is a
// *RefusedError, with the verdict. Other errors are of reading.
func (p Policy) Judge(i Image, keyless Keyless) (Verdict, error) {
	v := Verdict{Ref: i.Ref, Digest: i.Digest, State: Unsigned}
	signatures, attached, err := collect(i)
	if err != nil {
		return v, fmt.Errorf("signatures of image %s: %w", i.Ref, err)
	}
	if v.Attached = attached; attached == nil {
		v.Attached = []string{}
	}
	rule, ok := p.For(ocilayout.Repository(i.Ref))
	if !ok || rule.Unsigned {
		for _, kind := range attached {
			if strings.HasSuffix(kind, " signature") || kind == sigstoreBundle {
				v.State = Unchecked
			}
		}
		return v, nil
	}
	var reasons []string
	for _, s := range signatures {
		who, err := rule.verify(s, i.Digest, keyless)
		if err == nil {
			v.State, v.By = Verified, who
			return v, nil
		}
		reasons = append(reasons, fmt.Sprintf("%s: %v", s.name(), err))
	}
	return p.refuse(v, rule, reasons)
}

// verify returns who of the rule made a signature.
func (r Rule) verify(s Signature, digest string, keyless Keyless) (string, error) {
	if s.fault != nil {
		return "", s.fault
	}
	var errs []error
	if len(r.Keys) > 0 {
		k, err := r.byKey(s, digest)
		if err == nil {
			return k.String(), nil
		}
		errs = append(errs, err)
	}
	if len(r.Identities) > 0 && keyless == nil {
		errs = append(errs, errors.New("this program does not verify identities; the sealift of build machines does"))
	} else if len(r.Identities) > 0 {
		who, err := keyless.Verify(r, s, digest)
		if err == nil {
			return who, nil
		}
		errs = append(errs, err)
	}
	return "", oneLine(errs)
}

func oneLine(errs []error) error {
	var texts []string
	for _, err := range errs {
		texts = append(texts, strings.ReplaceAll(err.Error(), "\n", " "))
	}
	return errors.New(strings.Join(texts, ", and "))
}

// maxReasons bounds the signatures whose faults an error lists.
const maxReasons = 5

// refuse completes the verdict for an image without a signature that its rule demands.
func (p Policy) refuse(v Verdict, r Rule, reasons []string) (Verdict, error) {
	var wanted []string
	for _, k := range r.Keys {
		wanted = append(wanted, k.String())
	}
	for _, i := range r.Identities {
		wanted = append(wanted, i.String())
	}
	demand := fmt.Sprintf("signatures of %q in %s demand one by %s", r.Prefix, p.file, strings.Join(wanted, " or "))
	v.State = Refused
	hint := fmt.Sprintf("check that it is the image that upstream released; if upstream signs in another way now, change the rule in %s", p.file)
	if len(reasons) == 0 {
		v.Reason = fmt.Sprintf("it is not signed, and %s", demand)
		hint = fmt.Sprintf("if upstream signs it, lock it again with sealift lock --update; if not, give %s a rule with unsigned: true in %s", ocilayout.Repository(v.Ref), p.file)
	} else {
		if more := len(reasons) - maxReasons; more > 0 {
			reasons = append(reasons[:maxReasons:maxReasons], fmt.Sprintf("and %d more", more))
		}
		v.Reason = fmt.Sprintf("none of its signatures is valid, and %s; %s", demand, strings.Join(reasons, "; "))
	}
	return v, &RefusedError{v, hint}
}

// JudgeArchive holds all images of a bundle or a package against the policy, in the order of its packages. Docker-archives stand for the
// images in them. Refused ones are verdicts, not errors.
func (p Policy) JudgeArchive(a *bundle.Archive, keyless Keyless) ([]Verdict, error) {
	verdicts := []Verdict{}
	seen := make(map[string]bool)
	for _, one := range a.Index.Packages {
		images, err := imagesOf(a, one)
		if err != nil {
			return nil, fmt.Errorf("package %s %s: %w", one.Name, one.Version, err)
		}
		for _, e := range ocilayout.DockerArchives(a, path.Join(one.Dir(), "images")) {
			verdicts = append(verdicts, p.judgeDockerArchive(e))
		}
		for _, i := range images {
			key := i.Ref + " " + i.Digest
			if seen[key] {
				continue
			}
			seen[key] = true
			v, err := p.Judge(i, keyless)
			if _, refused := errors.AsType[*RefusedError](err); err != nil && !refused {
				return nil, err
			}
			verdicts = append(verdicts, v)
		}
	}
	return verdicts, nil
}

// judgeDockerArchive refuses a docker-archive if the policy demands any signature: the archive says itself which images it has, and nothing is
// attached to them.
func (p Policy) judgeDockerArchive(e bundle.Entry) Verdict {
	v := Verdict{Ref: e.Path, Digest: "sha256:" + e.SHA256, State: Unsigned, Attached: []string{}}
	for _, r := range p.rules {
		if !r.Unsigned {
			v.State = Refused
			v.Reason = fmt.Sprintf("it is a docker-archive, whose images have no signatures, and %s demands some; build the package without --image-format docker-archive", p.file)
		}
	}
	return v
}

// imagesOf lists the images in the layout of a package, with what is attached to them.
func imagesOf(a *bundle.Archive, p bundle.PackageInfo) ([]Image, error) {
	layout, err := ocilayout.Open(a, path.Join(p.Dir(), "images"))
	if err != nil {
		return nil, err
	}
	attached, err := layout.Attached()
	if err != nil {
		return nil, err
	}
	var images []Image
	for _, i := range layout.Images {
		one := Image{Ref: i.Ref, Digest: i.Target.Digest.String(), Read: layout.Document}
		for _, at := range attached {
			if at.Subject == one.Digest && ocilayout.Repository(at.Ref) == ocilayout.Repository(i.Ref) {
				one.Attached = append(one.Attached, at.Target.Digest)
			}
		}
		images = append(images, one)
	}
	return images, nil
}
