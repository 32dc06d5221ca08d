// Package imagerecord tells the kubelet that all pods of a node may use the images that Sealift brought.
//
// From 1.35 on, a kubelet remembers how it pulled an image. After it pulled one with a secret, or under another name, it demands a pull of
// every other name of the same content, also of images that a bundle brought, which no registry behind the gap has. So a copy in some
// registry that one pod pulls could keep the API server's own container from starting again. The kubelet keeps a record for each image
// (ImagePulledRecord of kubelet.config.k8s.io/v1beta1, KEP-2535). Allow adds the names that a bundle's image has to the record as names that
// need no secret, as the kubelet does itself after an anonymous pull.
//
// Two settings of the kubelet were left alone. imagePullCredentialsVerificationPolicy: NeverVerify gives every pod the private images that
// another one has pulled. NeverVerifyAllowlistedImages refuses images that somebody imports with ctr later, counts names without tags or
// content, and has to change on all nodes with each bundle. Records hold for one content each, and work with every policy that a user
// chooses. Older kubelets do not read them.
//
// The kubelet reads the records when it starts. The package never restarts it, and never removes a record: the kubelet does with the image.
package imagerecord

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"github.com/sealift/sealift/bundle/ocilayout"
	"github.com/sealift/sealift/installer/host/files"
	"github.com/sealift/sealift/internal/regularfile"
	"github.com/sealift/sealift/internal/sha256hex"
)

// Dir is the kubelet's folder of records.
const Dir = "/var/lib/kubelet/image_manager/pulled"

const apiVersion, kind = "kubelet.config.k8s.io/v1beta1", "ImagePulledRecord"

// forAll is what a record says of a name that needs no secret.
const forAll = `{"nodePodsAccessible":true}`

// record is the kubelet's. It refuses unknown fields.
type record struct {
	Kind              string                     `json:"kind"`
	APIVersion        string                     `json:"apiVersion"`
	LastUpdatedTime   string                     `json:"lastUpdatedTime"` // RFC 3339
	ImageRef          string                     `json:"imageRef"`
	CredentialMapping map[string]json.RawMessage `json:"credentialMapping,omitempty"` // by the name in the pod, without tag and digest
}

// Allow records in dir that all pods may use the image with an ID (the digest of its configuration) by these names, with or without tag or
// digest. What the record says of other names stays. It writes nothing if the record allows all that already. A damaged record, which the
// kubelet could not use either, is replaced.
func Allow(dir, id string, names ...string) error {
	path := filepath.Join(dir, "sha256-"+sha256hex.Of(id))
	r, err := read(path, id)
	if err != nil {
		return fmt.Errorf("the kubelet's record of image %s: %w", id, err)
	}
	changed := false
	for _, name := range names {
		for _, spelling := range spellings(ocilayout.Repository(name)) {
			if !open(r.CredentialMapping[spelling]) {
				r.CredentialMapping[spelling] = json.RawMessage(forAll)
				changed = true
			}
		}
	}
	if !changed {
		return nil
	}
	r.LastUpdatedTime = time.Now().UTC().Format(time.RFC3339)
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if err := errors.Join(files.MkdirAll(filepath.Dir(filepath.Dir(dir)), 0o750), files.MkdirAll(dir, 0o700)); err != nil {
		return err
	}
	return files.WriteMode(path, 0o600, data)
}

// read reads a record. It returns an empty one if there is none that the kubelet can use.
func read(path, id string) (record, error) {
	empty := record{Kind: kind, APIVersion: apiVersion, ImageRef: id, CredentialMapping: map[string]json.RawMessage{}}
	data, err := regularfile.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return empty, nil
	}
	if err != nil {
		return empty, err
	}
	var r record
	if json.Unmarshal(data, &r) != nil || r.Kind != kind || r.ImageRef != id {
		return empty, nil //nolint:nilerr // Allow replaces a damaged record
	}
	r.APIVersion = apiVersion // v1alpha1, of kubelets with the feature gate before 1.35, has the same fields
	if r.CredentialMapping == nil {
		r.CredentialMapping = empty.CredentialMapping
	}
	return r, nil
}

// open reports whether all pods may use a name.
func open(credentials json.RawMessage) bool {
	var of struct {
		NodePodsAccessible bool `json:"nodePodsAccessible"`
	}
	return json.Unmarshal(credentials, &of) == nil && of.NodePodsAccessible
}

// spellings returns the ways in which pods write a repository: the kubelet compares them as they are, and docker.io can be left out.
func spellings(repository string) []string {
	all := []string{repository}
	short, hub := strings.CutPrefix(repository, "docker.io/")
	if !hub {
		return all
	}
	all = append(all, short)
	if name, official := strings.CutPrefix(short, "library/"); official {
		all = append(all, name, "docker.io/"+name)
	}
	return all
}
