package install

import (
	"fmt"
	"path/filepath"

	"github.com/sealift/sealift/installer/hooks/kurlbin"
	"github.com/sealift/sealift/installer/host/files"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/internal/shellword"
)

// layOut makes what add-ons of kURL expect below the install root: folders, and programs that are the sealift of this
// node.
func layOut(root, binary string) error {
	for _, folder := range node.Folders() {
		if err := files.MkdirAll(filepath.Join(root, folder), 0o755); err != nil {
			return err
		}
	}
	for _, name := range kurlbin.Names() {
		text := fmt.Sprintf("#!/bin/sh\nexec %s hook %s \"$@\"\n", shellword.Quote(binary), name)
		if err := files.WriteMode(filepath.Join(root, "bin", name), 0o755, []byte(text)); err != nil {
			return err
		}
	}
	return nil
}
