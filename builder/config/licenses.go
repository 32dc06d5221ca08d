package config

import (
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/sealift/sealift/builder/license"
)

func (p *parser) licenses(n *yaml.Node) (policy license.Policy) {
	if !p.IsMapping(n, "licenses") {
		return policy
	}
	fields := p.Fields(n, "licenses", "forbidden", "exceptions")
	if forbidden := fields["forbidden"]; forbidden != nil {
		policy.Forbidden = p.texts(forbidden, "forbidden")
		for i, id := range policy.Forbidden {
			p.checkLicense(forbidden.Content[i], id)
		}
	}
	if exceptions := fields["exceptions"]; exceptions != nil {
		for _, item := range p.items(exceptions, "exceptions") {
			policy.Exceptions = append(policy.Exceptions, p.licenseException(item))
		}
	}
	return policy
}

// checkLicense reports an identifier that bills of materials do not have.
func (p *parser) checkLicense(at *yaml.Node, id string) {
	if license.IsIdentifier(id) {
		return
	}
	hint := "SPDX lists them on https://spdx.org/licenses; others are LicenseRef-…"
	if near := license.Nearest(id); near != "" {
		hint = `did you mean "` + near + `"?`
	}
	p.Errorf(p.Pos(at), hint, "nothing has the license %q: bills of materials have SPDX identifiers", id)
}

func (p *parser) licenseException(n *yaml.Node) (e license.Exception) {
	if !p.IsMapping(n, "an exception") {
		return e
	}
	texts := map[string]*string{"license": &e.License, "image": &e.Image, "package": &e.Package, "reason": &e.Reason}
	fields := p.Fields(n, "an exception", append(keys(texts), "until")...)
	for name, text := range texts {
		if fields[name] != nil {
			*text = p.Text(fields[name], name)
		}
	}
	switch {
	case e.License == "" || e.Reason == "" || fields["until"] == nil:
		p.Errorf(p.Pos(n), "", "an exception needs license, reason and until, its last day")
		return e
	case e.Image == "" && e.Package == "":
		p.Errorf(p.Pos(n), "", "an exception needs an image or a package, or both")
	}
	p.checkLicense(fields["license"], e.License)
	var err error
	if e.Until, err = time.Parse(time.DateOnly, p.Text(fields["until"], "until")); err != nil {
		p.Errorf(p.Pos(fields["until"]), "write the last day, such as 2027-03-31", "until is %q", fields["until"].Value)
	}
	return e
}
