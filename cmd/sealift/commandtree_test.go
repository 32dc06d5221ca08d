package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/sealift/sealift/cli/app"
)

// groupsBelow lists the paths of all commands that only hold others, without the name of the root.
func groupsBelow(cmd *cobra.Command, path ...string) [][]string {
	var found [][]string
	if cmd.HasSubCommands() {
		found = append(found, path)
	}
	for _, sub := range cmd.Commands() {
		found = append(found, groupsBelow(sub, append(slices.Clone(path), sub.Name())...)...)
	}
	return found
}

func TestAnUnknownCommandIsWrongUsageEverywhere(t *testing.T) {
	for name, row := range map[string]struct {
		tree *cobra.Command
		run  func(args ...string) (int, string)
	}{
		"sealift": {rootCommand(&app.App{}), func(args ...string) (int, string) {
			var errOut bytes.Buffer
			return run(t.Context(), args, strings.NewReader(""), &bytes.Buffer{}, &errOut), errOut.String()
		}},
		"channels": {channelsCommand(&app.App{}), func(args ...string) (int, string) {
			var errOut bytes.Buffer
			return runChannels(t.Context(), args, strings.NewReader(""), &bytes.Buffer{}, &errOut), errOut.String()
		}},
	} {
		groups := append(groupsBelow(row.tree), []string{"completion"}, []string{"help"})
		if name == "sealift" && len(groups) < 10 {
			t.Errorf("only %d groups of commands were found", len(groups))
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

func TestFlagsOfKopsAreKnown(t *testing.T) {
	for _, tt := range []struct{ args, rest, notes string }{
		{"apply channel s3://b/a.yaml --v=4 --yes", "apply channel s3://b/a.yaml --yes", ""},
		{"apply channel a -v=4 --logtostderr --yes", "apply channel a --yes", ""},
		{"-v 4 get addons -v4 --logtostderr=true --alsologtostderr", "get addons", ""},
		{"-v get addons", "-v get addons", ""},
		{"apply channel --config x -f y", "apply channel -f y", "--config is ignored"},
		{"apply channel --config=x -f y --", "apply channel -f y --", "--config is ignored"},
		{"apply --node-name n --node-labels a=b,c=d channel", "apply channel", "--node-name is ignored --node-labels is ignored"},
		{"apply channel -- --v=4", "apply channel -- --v=4", ""},
	} {
		rest, notes := withoutKopsFlags(strings.Fields(tt.args))
		for i := range notes {
			notes[i], _, _ = strings.Cut(notes[i], ":")
		}
		if diff := cmp.Diff([]string{tt.rest, tt.notes}, []string{strings.Join(rest, " "), strings.Join(notes, " ")}); diff != "" {
			t.Errorf("%s: %s", tt.args, diff)
		}
	}
}

func TestHelpOfTheAliasSaysItsName(t *testing.T) {
	for _, args := range [][]string{{"--help"}, {"apply", "--help"}, {"get", "--help"}, {"plan", "--help"}, {"help", "build"}} {
		var out, errOut bytes.Buffer
		if code := runChannels(t.Context(), args, strings.NewReader(""), &out, &errOut); code != app.ExitDone {
			t.Errorf("%v: exit code %d: %s", args, code, &errOut)
		}
		if strings.Contains(out.String(), "sealift channel") || !strings.Contains(out.String(), "  channels ") {
			t.Errorf("%v:\n%s", args, &out)
		}
	}
}
