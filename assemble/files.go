package assemble

import (
	"context"
	_ "embed"
	"fmt"
	"path"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/sealift/sealift/bundle"
)

//go:embed install.sh
var installScript string

//go:embed tasks.sh
var tasksScript string

// tasksMark is the line of install.sh that is replaced by the tasks in tasks.sh.
const tasksMark = "# @TASKS@\n"

// refusal is the script for a command that the nodes' sealift lacks. It is a script because people pipe it into a shell.
const refusal = `#!/usr/bin/env bash
echo "%[1]s.sh: the sealift that goes with this script has no command %[1]s; nothing was changed" >&2
exit 1
`

// ScriptNames are the commands with a script COMMAND.sh. The first argument of tasks.sh is a task.
func ScriptNames() []string { return []string{"install", "join", "upgrade", "tasks"} }

// Script starts sealift on a node: the one in the bundle beside it, or one that a server provides.
type Script struct {
	Platform string // of the binary, such as linux/amd64
	Digest   string // sha256 of the binary
	Size     int64  // of the binary, in bytes
	// Command is one of ScriptNames.
	Command string
	// Commands are the commands of the binary. For any other command, the script prints an error and fails.
	Commands []string
	// URL is the URL of the Installer on a server, and BinaryURL that of the archive with the binary. Both are empty in a
	// bundle. They are inserted unquoted, so they must contain nothing that a shell interprets.
	URL, BinaryURL string
}

// Text returns the script.
func (s Script) Text() []byte {
	text, tasks := installScript, ""
	if s.Command == "tasks" {
		_, tasks, _ = strings.Cut(tasksScript, "\n\n") // without its own header
	} else if !slices.Contains(s.Commands, s.Command) {
		return fmt.Appendf(nil, refusal, s.Command)
	}
	return []byte(strings.NewReplacer("@PLATFORM@", s.Platform, "@SHA256@", s.Digest, "@SIZE@", strconv.FormatInt(s.Size, 10), "@COMMAND@", s.Command,
		"@URL@", s.URL, "@BINARY@", s.BinaryURL, tasksMark+"\n", tasks).Replace(text))
}

// Binary makes a bundle member of the nodes' sealift. spool is a folder for its compressed form, see bundle.WriteOptions; "" leaves it
// unchanged.
func Binary(ctx context.Context, name, spool string) (*bundle.Member, error) {
	return program(ctx, bundle.BinaryName, name, spool)
}

// Preflight makes a bundle member of the nodes' sealift-preflight, as Binary does.
func Preflight(ctx context.Context, name, spool string) (*bundle.Member, error) {
	return program(ctx, bundle.PreflightName, name, spool)
}

// Console makes a bundle member of the control planes' sealift-console, as Binary does.
func Console(ctx context.Context, name, spool string) (*bundle.Member, error) {
	return program(ctx, bundle.ConsoleName, name, spool)
}

func program(ctx context.Context, member, name, spool string) (*bundle.Member, error) {
	file, err := bundle.DiskFile(member, 0o755, name)
	if err != nil {
		return nil, fmt.Errorf("%s for the nodes: %w", path.Base(member), err)
	}
	members, err := bundle.Render(ctx, []bundle.File{file}, bundle.WriteOptions{Spool: spool, Plain: spool == "", Jobs: runtime.GOMAXPROCS(0)})
	if err != nil {
		return nil, fmt.Errorf("%s for the nodes: %w", path.Base(member), err)
	}
	return members[0], nil
}

// members returns the files at the root of the bundle. All but the programs are in memory.
func (r Request) members(ctx context.Context, archives []*bundle.Archive) ([]*bundle.Member, error) {
	text, err := r.Installer.Canonical()
	if err != nil {
		return nil, err
	}
	var files []bundle.File
	for _, command := range ScriptNames() {
		script := Script{Platform: r.Platform, Digest: r.Binary.SHA256(), Size: r.Binary.Size(), Command: command, Commands: r.Commands}
		files = append(files, bundle.BytesFile(command+".sh", 0o755, script.Text()))
	}
	members, err := bundle.Render(ctx, append(files, bundle.BytesFile(bundle.InstallerName, 0o644, text)), bundle.WriteOptions{})
	members = append(members, r.Binary)
	if r.Console != nil {
		members = append(members, r.Console)
	}
	if err != nil || r.Preflight == nil {
		return members, err
	}
	used, err := r.usesPreflight(archives)
	if used {
		members = append(members, r.Preflight)
	}
	return members, err
}
