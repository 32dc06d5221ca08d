package adopt

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/installer/host/files"
)

// console is the sealift-console that an adoption keeps on a control plane.
type console struct {
	from   string // beside the running sealift; "" if there is none
	kept   string // where installs keep theirs
	digest string // SHA-256
}

// consoleOf finds the sealift-console beside a sealift. It will run as root, so only root may be able to write to it.
func consoleOf(sealift, root string) (console, error) {
	c := console{kept: filepath.Join(root, bundle.ConsoleName)}
	beside := filepath.Join(filepath.Dir(sealift), filepath.Base(bundle.ConsoleName))
	if _, err := os.Stat(beside); errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	from, err := files.Own(beside)
	if err != nil {
		return c, fmt.Errorf("%s would run as root: %w; or remove it, to adopt the node without a console", beside, err)
	}
	file, err := bundle.DiskFile(bundle.ConsoleName, 0o755, from)
	if err != nil {
		return c, fmt.Errorf("read the console: %w", err)
	}
	c.from, c.digest = from, file.SHA256
	return c, nil
}

func (c console) keep(context.Context) error {
	if err := files.MkdirAll(filepath.Dir(c.kept), 0o755); err != nil {
		return err
	}
	return files.Copy(c.kept, 0o755, c.from)
}
