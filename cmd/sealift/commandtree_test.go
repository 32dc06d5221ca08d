package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/cli/channel"
	"github.com/sealift/sealift/cli/node"
)

// groupsBelow lists the paths of all commands that only hold others, without the name of the root.
func groupsBelow(cmd *cobra.Command, path ...string) [][]string {
	var found [][]string
	if cmd.HasSubCommands() && !cmd.Runnable() {
		found = append(found, path)
	}
	for _, sub := range cmd.Commands() {
		found = append(found, groupsBelow(sub, append(slices.Clone(path), sub.Name())...)...)
	}
	return found
}

func TestUnknownCommandIsWrongUsage(t *testing.T) {
	for name, row := range map[string]struct {
		tree *cobra.Command
		run  func(args ...string) (int, string)
	}{
		"sealift": {rootCommand(&app.App{}), func(args ...string) (int, string) {
			var errOut bytes.Buffer
			return run(t.Context(), args, strings.NewReader(""), &bytes.Buffer{}, &errOut), errOut.String()
		}},
		"the sealift of nodes": {node.Root(&app.App{}), func(args ...string) (int, string) {
			var errOut bytes.Buffer
			return app.Run(t.Context(), "sealift", node.Root, args, strings.NewReader(""), &bytes.Buffer{}, &errOut), errOut.String()
		}},
		"channels": {channel.Channels(&app.App{}), func(args ...string) (int, string) {
			var errOut bytes.Buffer
			return channel.RunChannels(t.Context(), args, strings.NewReader(""), &bytes.Buffer{}, &errOut), errOut.String()
		}},
	} {
		groups := append(groupsBelow(row.tree), []string{"completion"}, []string{"help"})
		if name == "sealift" && len(groups) < 10 {
			t.Errorf("only %d groups of commands were found", len(groups))
		}
		if name != "channels" { // does something itself, and has others
			if code, errOut := row.run("upgrade", "nonsense"); code != app.ExitUsage || !strings.Contains(errOut, `unknown command "nonsense" for`) {
				t.Errorf("%s upgrade nonsense: exit code %d: %s", name, code, errOut)
			}
			if code, errOut := row.run("upgrade", "statsu"); code != app.ExitUsage || !strings.Contains(errOut, "(did you mean status?)") {
				t.Errorf("%s upgrade statsu: exit code %d: %s", name, code, errOut)
			}
		}
		for _, group := range groups {
			path := strings.Join(append([]string{name}, group...), " ")
			if code, errOut := row.run(append(slices.Clone(group), "nonsense")...); code != app.ExitUsage || !strings.Contains(errOut, `unknown command "nonsense" for`) {
				t.Errorf("%s nonsense: exit code %d: %s", path, code, errOut)
			}
			if code, errOut := row.run(group...); code != app.ExitDone || errOut != "" {
				t.Errorf("%s: exit code %d: %s", path, code, errOut)
			}
		}
	}
}

func TestAliasHelpNamesAlias(t *testing.T) {
	for _, args := range [][]string{{"--help"}, {"apply", "--help"}, {"get", "--help"}, {"plan", "--help"}, {"help", "build"}} {
		var out, errOut bytes.Buffer
		if code := channel.RunChannels(t.Context(), args, strings.NewReader(""), &out, &errOut); code != app.ExitDone {
			t.Errorf("%v: exit code %d: %s", args, code, &errOut)
		}
		if strings.Contains(out.String(), "sealift channel") || !strings.Contains(out.String(), "  channels ") {
			t.Errorf("%v:\n%s", args, &out)
		}
	}
}
