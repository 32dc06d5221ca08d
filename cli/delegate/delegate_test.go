package delegate

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/sealift/sealift/internal/testing/fixture"
)

func TestDelegatePrintsItsOwnHelp(t *testing.T) {
	for line, want := range map[string]string{
		"help fleet status": "fleet status --help", "help testgrid": "testgrid --help", "help operator queue list": "operator queue list --help",
		"help": "help", "help channel get": "help channel get", "fleet help status": "fleet help status", "": "",
	} {
		if got := strings.Join(HelpWords(strings.Fields(line)), " "); got != want {
			t.Errorf("%q becomes %q, want %q", line, got, want)
		}
	}
}

func TestDelegateCompletesItsOwnWords(t *testing.T) {
	dir := t.TempDir()
	script := "#!/bin/sh\n[ \"$*\" = '__complete fleet st' ] && printf 'status\\tSay how far\\n:4\\n'\n"
	if err := fixture.WriteProgram(filepath.Join(dir, controllerName), script); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	cmd := Fleet()
	cmd.SetContext(t.Context())
	words, directive := cmd.ValidArgsFunction(cmd, nil, "st")
	if !slices.Equal(words, []string{"status\tSay how far"}) || directive != cobra.ShellCompDirectiveNoFileComp {
		t.Errorf("%q, %d", words, directive)
	}
	if _, directive := cmd.ValidArgsFunction(cmd, nil, "else"); directive != cobra.ShellCompDirectiveError {
		t.Errorf("a program that fails: %d", directive)
	}
}
