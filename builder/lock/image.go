package lock

import "go.yaml.in/yaml/v3"

// Image is the result of resolving a reference.
type Image struct {
	Ref       string            `yaml:"ref"`       // the full name, with its tag or digest
	Digest    string            `yaml:"digest"`    // sha256:<hex>, of an index or of the only manifest
	MediaType string            `yaml:"mediaType"` // media type of the content with that digest
	Size      int64             `yaml:"size"`      // size of the same content, in bytes
	Platforms map[string]string `yaml:"platforms"` // platform to manifest digest
	Attached  []Attached        `yaml:"attached,omitempty"`
}

// Attached is a signature, an SBOM or an attestation of an image. It is after what it is attached to.
type Attached struct {
	Digest    string `yaml:"digest"`    // of its manifest
	MediaType string `yaml:"mediaType"` // of its manifest
	Size      int64  `yaml:"size"`      // of its manifest, in bytes
	Subject   string `yaml:"subject"`   // digest of what it is attached to
	Tag       string `yaml:"tag,omitempty"`
}

// Image returns the locked image of a reference.
func (l *Lock) Image(ref string) (Image, bool) {
	return find(l.Images, func(i Image) bool { return i.Ref == ref })
}

func imageSection() section {
	return section{
		name:  "images",
		read:  func(p *parser, n *yaml.Node, l *Lock) { l.Images = append(l.Images, p.image(n)) },
		facts: Lock.images,
	}
}

func (p *parser) image(n *yaml.Node) Image {
	r := p.record(n, "an image", []string{"ref", "digest", "mediaType", "size", "platforms"}, "attached")
	i := Image{Ref: r.text("ref"), Digest: r.digest("digest"), MediaType: r.text("mediaType"), Size: r.size(), Platforms: make(map[string]string)}
	r.once("ref")
	if platforms := r.fields["platforms"]; platforms != nil && p.IsMapping(platforms, "platforms") {
		for at := 0; at+1 < len(platforms.Content); at += 2 {
			name := platforms.Content[at].Value
			i.Platforms[name] = p.checkDigest(platforms.Content[at+1], "the digest for "+name)
		}
	}
	for _, n := range r.list("attached") {
		a := p.record(n, "an attachment of "+i.Ref, []string{"digest", "mediaType", "size", "subject"}, "tag")
		i.Attached = append(i.Attached, Attached{Digest: a.digest("digest"), MediaType: a.text("mediaType"), Size: a.size(), Subject: a.digest("subject"), Tag: a.text("tag")})
	}
	return i
}

// images maps each image, each of its platforms, and what is attached to it, to digests.
func (l Lock) images() map[string]string {
	m := make(map[string]string)
	for _, i := range l.Images {
		m["image "+i.Ref] = i.Digest
		for platform, digest := range i.Platforms {
			if digest != i.Digest { // an image without an index is its own and only platform
				m["image "+i.Ref+" "+platform] = digest
			}
		}
		for _, a := range i.Attached {
			name := a.Tag
			if name == "" {
				name = "to " + a.Subject + ", " + a.Digest
			}
			m["image "+i.Ref+" attached "+name] = a.Digest
		}
	}
	return m
}
