package airgap

import (
	"context"
	_ "embed"
	"fmt"
	"path"
	"runtime"
	"strings"

	"github.com/sealift/sealift/bundle"
)

//go:embed install.sh
var installScript string

// Script starts sealift on a node: the one in the bundle beside it, or one that a server gives.
type Script struct {
	Platform string // of the binary, such as linux/amd64
	Digest   string // sha256 of the binary
	// Command is what the binary is to do: install, join, upgrade. For tasks it is told by the first word of the script's
	// command line.
	Command string
	// URL is that of the Installer on a server, and BinaryURL that of the binary in an archive; both are empty in a bundle.
	// They go into the script as they are and must have nothing that a shell does not take for text.
	URL, BinaryURL string
}

// Text gives the script.
func (s Script) Text() []byte {
	return []byte(strings.NewReplacer("@PLATFORM@", s.Platform, "@SHA256@", s.Digest, "@COMMAND@", s.Command,
		"@URL@", s.URL, "@BINARY@", s.BinaryURL).Replace(installScript))
}

// Binary makes a member of the sealift for the nodes. Spool is a folder for its compressed form; see bundle.WriteOptions.
func Binary(ctx context.Context, name, spool string) (*bundle.Member, error) {
	return program(ctx, bundle.BinaryName, name, spool)
}

// Preflight makes a member of the sealift-preflight for the nodes, as Binary does of sealift.
func Preflight(ctx context.Context, name, spool string) (*bundle.Member, error) {
	return program(ctx, bundle.PreflightName, name, spool)
}

func program(ctx context.Context, member, name, spool string) (*bundle.Member, error) {
	file, err := bundle.DiskFile(member, 0o755, name)
	if err != nil {
		return nil, fmt.Errorf("%s for the nodes: %w", path.Base(member), err)
	}
	members, err := bundle.Render(ctx, []bundle.File{file}, bundle.WriteOptions{Spool: spool, Jobs: runtime.GOMAXPROCS(0)})
	if err != nil {
		return nil, fmt.Errorf("%s for the nodes: %w", path.Base(member), err)
	}
	return members[0], nil
}

// members are what lies at the root of the bundle. All but the programs are in memory.
func (r Request) members(ctx context.Context) ([]*bundle.Member, error) {
	text, err := r.Installer.Canonical()
	if err != nil {
		return nil, err
	}
	script := Script{Platform: r.Platform, Digest: r.Binary.SHA256(), Command: "install"}
	members, err := bundle.Render(ctx, []bundle.File{
		bundle.BytesFile(bundle.ScriptName, 0o755, script.Text()), bundle.BytesFile(bundle.InstallerName, 0o644, text),
	}, bundle.WriteOptions{})
	members = append(members, r.Binary)
	if r.Preflight != nil {
		members = append(members, r.Preflight)
	}
	return members, err
}
