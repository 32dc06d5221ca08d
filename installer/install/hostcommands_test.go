package install

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/sealift/sealift/internal/testing/isolation"
	"github.com/sealift/sealift/spec"
)

const commandsSpec = `apiVersion: cluster.kurl.sh/v1beta1
kind: Installer
spec:
  kubernetes: {version: 1.36.3}
  iptablesConfig:
    iptablesCmds:
    - [--new-chain, MINE]
    - [--append, MINE, --protocol, tcp, --dport, 7777, --jump, ACCEPT, -m, comment, --comment, "$(touch OWNED); \"mine\""]
`

func TestInstallerCommandsAreRunWithoutShell(t *testing.T) {
	isolation.Network(t)
	i := made(t, with(t, "kubernetes", ""))
	if slices.Contains(ids(i.plan), hostCommandsStep) {
		t.Error("there is a step for nothing")
	}
	var err error
	if i.spec, err = spec.Parse("installer.yaml", strings.NewReader(commandsSpec)); err != nil {
		t.Fatal(err)
	}
	plan := i.makePlan()
	at := slices.Index(ids(plan), hostCommandsStep)
	if at < 0 {
		t.Fatal(ids(plan))
	}
	if _, err := plan[at].Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "iptables-save").Output()
	if err != nil || !strings.Contains(string(out), `-A MINE -p tcp -m tcp --dport 7777 -m comment --comment "$(touch OWNED); \"mine\"" -j ACCEPT`) {
		t.Errorf("%v\n%s", err, out)
	}
	if _, err := os.Stat("OWNED"); err == nil {
		t.Error("a word was run as code")
	}
	if _, err := plan[at].Run(t.Context()); err == nil || !strings.Contains(err.Error(), "iptablesConfig.iptablesCmds: iptables --new-chain MINE: ") {
		t.Errorf("a command that fails: %v", err)
	}
}

func TestSELinuxModeFollowsInstaller(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "disableSelinux: true": "permissive", "selinux: enforcing": "enforcing", "disableSelinux: true, preserveConfig: true": "",
		"selinux: $(id)": "$(id)",
	} {
		i := made(t)
		i.spec = parseSpec(t, "  selinuxConfig: {"+text+"}\n")
		i.settings = i.newSettings()
		if got := i.settings.selinux; got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
		if err := i.checkSELinux(); (err != nil) != (want == "$(id)") {
			t.Errorf("%s: %v", text, err)
		}
	}
}
