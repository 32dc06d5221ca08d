package lint

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/sealift/sealift/internal/diag"
	"github.com/sealift/sealift/kube/kubeadmpatch"
)

// kubeadmVersion matches the apiVersion line of kubeadm's documents.
var kubeadmVersion = regexp.MustCompile(`(?m)^apiVersion:[ \t]*["']?(kubeadm\.k8s\.io/[A-Za-z0-9]+)`)

// kubeadm checks that the add-on's kubeadm configurations and patches can be converted to the version that kubeadm reads.
func (c *checker) kubeadm() error {
	for _, name := range c.files {
		if !slices.Contains([]string{".yaml", ".yml"}, filepath.Ext(name)) {
			continue
		}
		info, err := os.Lstat(c.path(name))
		if err != nil {
			return err
		}
		if info.Size() > maxFileSize {
			continue
		}
		text, err := os.ReadFile(c.path(name))
		if err != nil {
			return err
		}
		c.kubeadmFile(name, text)
	}
	return nil
}

func (c *checker) kubeadmFile(name string, text []byte) {
	found := kubeadmVersion.FindIndex(text)
	if found == nil {
		return
	}
	merged, notes, err := kubeadmpatch.Mergeable(text)
	pos := diag.Pos{File: c.path(name), Line: 1 + bytes.Count(text[:found[0]], []byte("\n")), Col: 1}
	if err != nil {
		c.errorf(pos, "write it for "+kubeadmpatch.APIVersion, "cannot be raised to %s: %v", kubeadmpatch.APIVersion, err)
		return
	}
	for _, left := range kubeadmVersion.FindAllSubmatch(merged, -1) {
		if version := string(left[1]); version != kubeadmpatch.APIVersion {
			c.errorf(pos, "write it for "+kubeadmpatch.APIVersion, "%s is not raised to what kubeadm reads", version)
		}
	}
	for _, note := range notes {
		c.rule(pos, "remove it", "%s", note)
	}
}
