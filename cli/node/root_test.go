package node_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"

	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/cli/node"
)

// TestNodeProgramHasOnlyNodeCommands names what scripts, hooks and users call on a node, and what only others need.
func TestNodeProgramHasOnlyNodeCommands(t *testing.T) {
	names := node.CommandNames()
	for name := range strings.FieldsSeq("preflight install token join status journal certs snapshot support-bundle images node reset apply channel verify inspect spec hook version") {
		if !slices.Contains(names, name) {
			t.Errorf("nodes have no command %s", name)
		}
	}
	for name := range strings.FieldsSeq("manifest addon lock build key cache import publish bundle serve") {
		var errOut bytes.Buffer
		if code := app.Run(t.Context(), "sealift", node.Root, []string{name}, strings.NewReader(""), &bytes.Buffer{}, &errOut); code != app.ExitUsage {
			t.Errorf("nodes have the command %s: exit code %d, %s", name, code, &errOut)
		}
	}
}

// TestHostCheckingCommandsShowCheckFlags proves that kURL's words for these flags do not hide them.
func TestHostCheckingCommandsShowCheckFlags(t *testing.T) {
	for _, name := range []string{"preflight", "install", "join", "restore"} {
		cmd, _, err := node.Root(&app.App{}).Find([]string{name})
		if err != nil {
			t.Fatal(err)
		}
		for _, flag := range []string{"ignore", "enforce-warnings", "exclude-builtin"} {
			if found := cmd.Flags().Lookup(flag); found == nil || found.Hidden || found.Value.Type() != "bool" {
				t.Errorf("%s: its help has no --%s", name, flag)
			}
		}
		if found := cmd.Flags().Lookup("host-preflight-ignore"); found == nil || found.Name != "ignore" {
			t.Errorf("%s: kURL's host-preflight-ignore is not --ignore", name)
		}
	}
}

// TestEveryCommandFindsHostPrograms has the shortest PATH that a shell starts with: in that of RHEL's sudo sealift does not find the
// containerd that it installed, and in that of Debian's su dpkg does not find ldconfig (replicatedhq/kURL#2951, k3s-io/k3s#10175). Its
// children find both, too.
func TestEveryCommandFindsHostPrograms(t *testing.T) {
	var all int
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
		if cmd.RunE == nil {
			return
		}
		all++
		t.Setenv("PATH", "/usr/bin:/bin")
		defer syscall.Umask(syscall.Umask(0o077)) // of hardened hosts
		if cmd.PreRunE == nil {
			t.Errorf("%s runs with the PATH of its caller", cmd.CommandPath())
			return
		}
		if err := cmd.PreRunE(cmd, nil); err != nil {
			t.Error(err)
		}
		if mask := syscall.Umask(0o022); mask != 0o022 {
			t.Errorf("%s creates files with the umask %04o of its caller", cmd.CommandPath(), mask)
		}
		for _, folder := range []string{"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/sbin"} {
			if !slices.Contains(filepath.SplitList(os.Getenv("PATH")), folder) {
				t.Errorf("%s does not look for programs in %s", cmd.CommandPath(), folder)
			}
		}
	}
	for _, cmd := range append(node.Commands(&app.App{}, nil), node.Hook(&app.App{})) {
		walk(cmd)
	}
	if all < 35 {
		t.Errorf("only %d commands were looked at", all)
	}
}

// TestMeaninglessArgumentsAreWrongUsage runs as any user on any host: nothing of it is looked at.
func TestMeaninglessArgumentsAreWrongUsage(t *testing.T) {
	for line, why := range map[string]string{
		"node readdress host-9 --plan":                       `"host-9" is not an IP address`,
		"node remove":                                        "accepts 1 arg(s), received 0; the usage is 'sealift node remove NAME'; see 'sealift node remove --help'",
		"certs rotate-ca --plan --only sunshine":             `"sunshine" is not one of the parts that can be rotated: cluster, etcd, front-proxy, service-accounts`,
		"channel apply stable":                               `channel "stable" is a name`,
		"channel plan -f /dev/null --kubernetes-version new": `--kubernetes-version: Kubernetes version "new" cannot be read`,
	} {
		if code, _, errOut := sealift(t, strings.Fields(line)...); code != app.ExitUsage || !strings.Contains(errOut, why) {
			t.Errorf("%s: exit code %d: %s", line, code, errOut)
		}
	}
}

func TestPromptingCommandsAcceptShortYes(t *testing.T) {
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		if yes := cmd.Flags().Lookup("yes"); yes != nil && !yes.Hidden && yes.Shorthand != "y" {
			t.Errorf("%s has no -y", cmd.CommandPath())
		}
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk(node.Root(&app.App{}))
}

func TestEmptyListsExplainThemselves(t *testing.T) {
	folder := t.TempDir()
	if _, _, errOut := sealift(t, "snapshot", "list", "--store", folder); errOut != "there is no snapshot in "+folder+"; save one, or name another store with --store\n" {
		t.Error(errOut)
	}
	if _, out, errOut := sealift(t, "channel", "index", "--store", folder); errOut != "the index is empty: no package was published to "+folder+"\n" || !strings.Contains(out, "kind: Addons") {
		t.Error(out, errOut)
	}
}

func TestSupportBundleSpecIsRequired(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("support bundles want root")
	}
	for name, text := range map[string]string{"empty.yaml": "", "checks.yaml": "apiVersion: troubleshoot.sh/v1beta2\nkind: HostPreflight\n"} {
		file, out := filepath.Join(t.TempDir(), name), filepath.Join(t.TempDir(), "support.tar.gz")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		code, _, errOut := sealift(t, "support-bundle", "--spec", file, "--out", out)
		if _, err := os.Stat(out); code != app.ExitFailed || !strings.Contains(errOut, name+" has no SupportBundle of Troubleshoot") || err == nil {
			t.Errorf("%s: exit code %d: %s", name, code, errOut)
		}
	}
}
