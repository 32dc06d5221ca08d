package assemble

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strings"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/internal/platform"
)

//go:embed install.sh
var installScript string

//go:embed tasks.sh
var tasksScript string

// programsMark is the line of install.sh that is replaced by the choice of a program.
const programsMark = "    # @PROGRAMS@\n"

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
	Programs []Program // the script takes the one for its host
	// Command is one of ScriptNames.
	Command string
	// Commands are the commands of the nodes' sealift. For any other command, the script prints an error and fails.
	Commands []string
	// URL is the URL of the Installer on a server. The server has the archive with a sealift at ProgramsURL/SHA256/ProgramFile.
	// Both are empty in a bundle. They are inserted unquoted, so they must contain nothing that a shell interprets.
	URL, ProgramsURL string
}

// Text returns the script.
func (s Script) Text() []byte {
	text, tasks := installScript, ""
	if s.Command == "tasks" {
		_, tasks, _ = strings.Cut(tasksScript, "\n\n") // without its own header
	} else if !slices.Contains(s.Commands, s.Command) {
		return fmt.Appendf(nil, refusal, s.Command)
	}
	var choices []platform.Program
	for _, p := range s.Programs {
		choices = append(choices, platform.Program{Platform: p.Platform, Path: p.Sealift.Path(), SHA256: p.Sealift.SHA256(), Size: p.Sealift.Size()})
	}
	return []byte(strings.NewReplacer(programsMark, platform.Cases(choices), "@PLATFORMS@", strings.Join(Platforms(s.Programs), ", "), "@COMMAND@", s.Command,
		"@URL@", s.URL, "@PROGRAMS_URL@", s.ProgramsURL, "@PROGRAM_FILE@", ProgramFile, tasksMark+"\n", tasks).Replace(text))
}

// members returns the files at the root of the bundle. All but the programs are in memory.
func (r Request) members(ctx context.Context, archives []*bundle.Archive) ([]*bundle.Member, error) {
	text, err := r.Installer.Canonical()
	if err != nil {
		return nil, err
	}
	var files []bundle.File
	for _, command := range ScriptNames() {
		script := Script{Programs: r.Programs, Command: command, Commands: r.Commands}
		files = append(files, bundle.BytesFile(command+".sh", 0o755, script.Text()))
	}
	members, err := bundle.Render(ctx, append(files, bundle.BytesFile(bundle.InstallerName, 0o644, text)), bundle.WriteOptions{})
	if err != nil {
		return nil, err
	}
	used := false
	if slices.ContainsFunc(r.Programs, func(p Program) bool { return p.Preflight != nil }) {
		if used, err = r.usesPreflight(archives); err != nil {
			return nil, err
		}
	}
	for _, p := range r.Programs {
		members = append(members, p.Sealift)
		if p.Console != nil {
			members = append(members, p.Console)
		}
		if used && p.Preflight != nil {
			preflight, err := p.Preflight.Member(ctx)
			if err != nil {
				return nil, err
			}
			members = append(members, preflight)
		}
	}
	return members, nil
}
