package licensing

import (
	"fmt"
	"strings"
	"time"

	"github.com/sealift/sealift/builder/inventory"
	"github.com/sealift/sealift/builder/license"
	"github.com/sealift/sealift/bundle/ocilayout"
)

// maxNamed bounds the components that an error names.
const maxNamed = 10

// Judged is a component in one place with a license that a policy forbids.
type Judged struct {
	Kind    Kind            `json:"kind"`
	Name    string          `json:"name"`
	Version string          `json:"version,omitempty"`
	License string          `json:"license"`
	Place   inventory.Place `json:"place"`
	// Forbidden are the licenses that are refused. It is empty if exceptions permit all of them.
	Forbidden []string `json:"forbidden,omitempty"`
	// Reasons are those of the exceptions that permit it, or did until they were over.
	Reasons []string `json:"reasons,omitempty"`
}

// Judge holds every component against a policy. It returns those that are refused, and those that exceptions permit.
//
// NOASSERTION is about packages of operating systems that state no license, and about images of which nothing states one. Modules are not
// held against it: programs do not carry the licenses of their modules.
func (r *Report) Judge(p license.Policy, now time.Time) (refused, permitted []Judged) {
	if len(p.Forbidden) == 0 {
		return nil, nil
	}
	stated := r.statedImages()
	for _, c := range r.Components {
		for _, place := range c.Places {
			if c.Unknown() && (c.Kind != Package && c.Kind != Image || c.Kind == Image && stated[imageKey(place)]) {
				continue
			}
			repository := ""
			if place.Image != "" {
				repository = ocilayout.Repository(place.Image)
			}
			v := p.Judge(c.License, repository, c.Name, now)
			one := Judged{Kind: c.Kind, Name: c.Name, Version: c.Version, License: c.License, Place: place, Forbidden: v.Forbidden}
			for _, e := range append(v.Applied, v.Over...) {
				one.Reasons = append(one.Reasons, e.String())
			}
			switch {
			case len(v.Forbidden) > 0:
				refused = append(refused, one)
			case len(v.Applied) > 0:
				permitted = append(permitted, one)
			}
		}
	}
	return refused, permitted
}

func imageKey(p inventory.Place) string { return p.Image + " " + p.Platform }

// statedImages returns the images in which something states a license.
func (r *Report) statedImages() map[string]bool {
	stated := make(map[string]bool)
	for _, c := range r.Components {
		for _, place := range c.Places {
			if !c.Unknown() && place.Image != "" {
				stated[imageKey(place)] = true
			}
		}
	}
	return stated
}

// String says what is forbidden, and where.
func (j Judged) String() string {
	what := strings.TrimSpace(string(j.Kind) + " " + j.Name + " " + j.Version)
	switch {
	case j.Kind == Package && j.Place.Image == "":
		what = "host " + what
	case j.Kind != Image && j.Place.Image != "":
		what = "image " + j.Place.Image + " " + j.Place.Platform + ": " + what
	}
	at := j.Place
	at.Image = ""
	if where := at.String(); where != "" {
		what += " (" + where + ")"
	}
	text := what + " has the license " + j.License
	if j.License == license.NoAssertion {
		text = what + " states no license"
	}
	if len(j.Reasons) > 0 {
		text += "; " + strings.Join(j.Reasons, "; ")
	}
	return text
}

// Check returns an error that names what a policy refuses. file is the name of the policy's.
func (r *Report) Check(p license.Policy, file string, now time.Time) error {
	refused, _ := r.Judge(p, now)
	if len(refused) == 0 {
		return nil
	}
	var lines []string
	for _, one := range refused {
		lines = append(lines, one.String())
	}
	if more := len(lines) - maxNamed; more > 0 {
		lines = append(lines[:maxNamed], fmt.Sprintf("and %d more", more))
	}
	return fmt.Errorf("licenses.forbidden of %s refuses it; leave it out of the Manifest, choose another image, or except it under licenses.exceptions with a reason and a last day\n%s",
		file, strings.Join(lines, "\n"))
}
