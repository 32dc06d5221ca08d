package mirror

import (
	"net/http"
	"regexp"
	"strings"

	"github.com/distribution/reference"
	"github.com/opencontainers/go-digest"
)

// kind is the kind of object that a request is for.
type kind string

const (
	version   kind = "" // whether this server knows the protocol
	manifests kind = "manifests"
	blobs     kind = "blobs"
	tags      kind = "tags"
	referrers kind = "referrers"
)

// request is a path of the protocol.
type request struct {
	kind       kind
	repository string // with its registry, as containerd names images: docker.io/library/busybox
	tag        string // "" if a digest is requested
	digest     digest.Digest
}

// maxTag and the characters of a tag are those of the protocol.
var tagPattern = regexp.MustCompile(`\A[a-zA-Z0-9_][a-zA-Z0-9._-]{0,127}\z`)

// parse reads the path of a request. registry is the registry of the images; if it is "", the path has it. Errors are failures.
func parse(path, registry string) (request, error) {
	rest, ok := strings.CutPrefix(path, Path)
	if ok && rest == "" {
		return request{}, nil
	}
	words := strings.Split(rest, "/")
	if !ok || len(words) < 3 {
		return request{}, failure{http.StatusNotFound, "UNSUPPORTED", "is not a path of the distribution protocol"}
	}
	name, last := strings.Join(words[:len(words)-2], "/"), words[len(words)-1]
	r := request{kind: kind(words[len(words)-2])}
	var err error
	if r.repository, err = repositoryName(name, registry); err != nil {
		return request{}, err
	}
	switch r.kind {
	case tags:
		if last == "list" {
			return r, nil
		}
	case manifests, blobs, referrers:
		if r.kind == manifests && tagPattern.MatchString(last) {
			r.tag = last
			return r, nil
		}
		if r.digest = digest.Digest(last); r.digest.Validate() != nil {
			return request{}, failure{http.StatusBadRequest, "DIGEST_INVALID", "the path ends with neither a valid digest nor a valid tag"}
		}
		return r, nil
	}
	return request{}, failure{http.StatusNotFound, "UNSUPPORTED", "is not a path of the distribution protocol"}
}

// repositoryName completes the name of a repository as containerd does.
func repositoryName(name, registry string) (string, error) {
	invalid := failure{http.StatusBadRequest, "NAME_INVALID", "the name of the repository is invalid"}
	if registry != "" {
		name = registry + "/" + name
	}
	named, err := reference.ParseNormalizedNamed(name)
	if err != nil || !reference.IsNameOnly(named) || registry != "" && reference.Domain(named) != registry {
		return "", invalid
	}
	return named.Name(), nil
}
