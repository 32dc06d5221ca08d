package airgap

import (
	"context"
	_ "embed"
	"fmt"
	"runtime"
	"strings"

	"github.com/sealift/sealift/bundle"
)

//go:embed install.sh
var installScript string

// Binary makes a member of the sealift for the nodes. Spool is a folder for its compressed form; see bundle.WriteOptions.
func Binary(ctx context.Context, name, spool string) (*bundle.Member, error) {
	file, err := bundle.DiskFile(bundle.BinaryName, 0o755, name)
	if err != nil {
		return nil, fmt.Errorf("sealift for the nodes: %w", err)
	}
	members, err := bundle.Render(ctx, []bundle.File{file}, bundle.WriteOptions{Spool: spool, Jobs: runtime.GOMAXPROCS(0)})
	if err != nil {
		return nil, fmt.Errorf("sealift for the nodes: %w", err)
	}
	return members[0], nil
}

// members are what lies at the root of the bundle. All but the binary are in memory.
func (r Request) members(ctx context.Context) ([]*bundle.Member, error) {
	text, err := r.Installer.Canonical()
	if err != nil {
		return nil, err
	}
	script := strings.NewReplacer("@PLATFORM@", r.Platform, "@SHA256@", r.Binary.SHA256()).Replace(installScript)
	members, err := bundle.Render(ctx, []bundle.File{
		bundle.BytesFile(bundle.ScriptName, 0o755, []byte(script)), bundle.BytesFile(bundle.InstallerName, 0o644, text),
	}, bundle.WriteOptions{})
	return append(members, r.Binary), err
}
