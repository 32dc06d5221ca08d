package spec_test

import (
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/sealift/sealift/spec"
)

func executions(t *testing.T, text string) []string {
	t.Helper()
	i, err := spec.Parse("installer.yaml", strings.NewReader("apiVersion: cluster.kurl.sh/v1beta1\nkind: Installer\nspec:\n  kubernetes: {version: 1.36.3}\n"+text))
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, e := range i.Executions() {
		lines = append(lines, e.String())
	}
	return lines
}

func TestCommandsOfInstallerAreListed(t *testing.T) {
	const checks = "  kurl:\n    hostPreflights: "
	toml := func(text string) string { return "  containerd: {version: 2.2.1, tomlConfig: '" + text + "'}\n" }
	for name, tt := range map[string]struct {
		text string
		want []string
	}{
		"nothing": {"  flannel: {version: 0.28.7, podCIDR: 10.1.0.0/16}\n", nil},
		"a collector that runs a program": {checks + `{spec: {collectors: [{cpu: {}}, {run: {collectorName: x, command: sh, args: [-c, "touch /tmp/x"], env: [A=1]}}]}}`,
			[]string{`kurl.hostPreflights: A=1 sh -c "touch /tmp/x"`}},
		"collectors that look": {checks + `{apiVersion: troubleshoot.sh/v1beta2, kind: HostPreflight, metadata: {name: x}, spec: {collectors: [{memory: {}}, {diskUsage: {path: /var}}, {http: {get: {url: "http://x"}}}, {systemPackages: {ubuntu: [curl]}}], analyzers: [{memory: {}}]}}`, nil},
		"a collector that measures by writing": {checks + `{spec: {collectors: [{filesystemPerformance: {directory: /etc}}]}}`,
			[]string{"kurl.hostPreflights: a measurement that writes a file to /etc"}},
		"a collector that sends": {checks + `{spec: {collectors: [{http: {get: {url: a}, post: {url: "http://x", body: b}}}]}}`,
			[]string{`kurl.hostPreflights: a request that sends something: "map[get:map[url:a] post:map[body:b url:http://x]]"`}},
		"a macro of rpm in place of a package": {checks + `{spec: {collectors: [{systemPackages: {rhel: ["--eval=%(id)"]}}]}}`,
			[]string{`kurl.hostPreflights: a package query with invalid names: "map[rhel:[--eval=%(id)]]"`}},
		"a collector of a later Troubleshoot": {checks + `{spec: {collectors: [{runPod: {image: x}}]}}`, []string{`kurl.hostPreflights: the collector runPod: "map[image:x]"`}},
		"another spelling":                    {checks + `{spec: {collectors: [{Run: {command: id}}], Collectors: []}}`, []string{"kurl.hostPreflights: a field that cannot be predicted: Collectors", `kurl.hostPreflights: the collector Run: "map[command:id]"`}},
		"no document of checks":               {checks + `"spec: {collectors: [{run: {command: id}}]}"`, []string{`kurl.hostPreflights: checks that cannot be predicted: "spec: {collectors: [{run: {command: id}}]}"`}},
		"checks from elsewhere":               {checks + `{spec: {uri: "http://x"}}`, []string{"kurl.hostPreflights: a field that cannot be predicted: uri"}},
		"host commands, in their order": {"  iptablesConfig: {iptablesCmds: [[-A, INPUT, -j, ACCEPT]]}\n  selinuxConfig: {chconCmds: [[-t, x, '/a b']], semanageCmds: [[port]]}\n  firewalldConfig: {firewalldCmds: [[--reload]]}\n",
			[]string{`selinuxConfig.chconCmds: chcon -t x "/a b"`, "selinuxConfig.semanageCmds: semanage port", "iptablesConfig.iptablesCmds: iptables -A INPUT -j ACCEPT", "firewalldConfig.firewalldCmds: firewall-cmd --reload"}},
		"host commands that are kept back":           {"  iptablesConfig: {preserveConfig: true, iptablesCmds: [[-F]]}\n", nil},
		"a terminal's own commands":                  {"  iptablesConfig: {iptablesCmds: [[\"\\e[2J\"]]}\n", []string{`iptablesConfig.iptablesCmds: iptables "\x1b[2J"`}},
		"settings of containerd":                     {toml(`[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]` + "\n\n" + `  runtime_type = "io.containerd.runc.v2"`), nil},
		"settings of containerd that name a program": {toml(`[stream_processors.x]` + "\n\n" + `path = "/bin/sh"`), []string{"containerd.tomlConfig: stream_processors = \"map[x:map[path:/bin/sh]]\""}},
		"a runtime of containerd":                    {toml(`[plugins.a.containerd.runtimes.runc.options]` + "\n\n" + `BinaryName = "/tmp/x"`), []string{"containerd.tomlConfig: plugins.a.containerd.runtimes.runc.options.BinaryName = /tmp/x"}},
		"settings that are no TOML":                  {toml(`[`), []string{"containerd.tomlConfig: settings that cannot be read: "}},
		"usual settings of containerd": {toml("version = 3\n\n[debug]\n\nlevel = \"info\"\n\n[timeouts]\n\n\"io.containerd.timeout.shim.load\" = \"5s\"\n\n" +
			"[plugins.a.containerd]\n\ndefault_runtime_name = \"runc\"\n\n[plugins.a.containerd.runtimes.runc.options]\n\nSystemdCgroup = true"), nil},
		"containerd for everybody": {toml("[grpc]\n\ntcp_address = \"0.0.0.0:7777\"\n\n[plugins.\"io.containerd.grpc.v1.cri\"]\n\ndisable_tcp_service = false"),
			[]string{`containerd.tomlConfig: grpc = "map[tcp_address:0.0.0.0:7777]"`, "containerd.tomlConfig: plugins.io.containerd.grpc.v1.cri.disable_tcp_service = false"}},
		"an image of containerd's": {toml("[plugins.a.pinned_images]\n\nsandbox = \"evil.example.com/pause:1\""),
			[]string{"containerd.tomlConfig: plugins.a.pinned_images.sandbox = evil.example.com/pause:1"}},
		"registries, plugins and the socket of containerd": {toml("[debug]\n\ngid = 1000\n\n[plugins.a]\n\nplugin_path = \"/tmp/x\"\n\n[plugins.a.registry]\n\nconfig_path = \"/tmp/y\""),
			[]string{"containerd.tomlConfig: debug.gid = 1000", "containerd.tomlConfig: plugins.a.plugin_path = /tmp/x", "containerd.tomlConfig: plugins.a.registry.config_path = /tmp/y"}},
		"a runtime called as a usual setting": {toml("[plugins.a.containerd.runtimes.version]\n\nruntime_type = \"/tmp/x\""),
			[]string{"containerd.tomlConfig: plugins.a.containerd.runtimes.version.runtime_type = /tmp/x"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := executions(t, tt.text)
			same := slices.EqualFunc(got, tt.want, func(a, b string) bool { return a == b || strings.HasSuffix(b, ": ") && strings.HasPrefix(a, b) })
			if !same {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
			}
		})
	}
}

func FuzzExecutions(f *testing.F) {
	f.Add("kurl: {hostPreflights: {spec: {collectors: [{run: {command: \"a\\e[2J\"}}, {cpu: {}}, {}]}}}", "[a]\nb = 1")
	f.Add("iptablesConfig: {iptablesCmds: [[a, '1\r2']]}", "path = 'x'")
	f.Fuzz(func(t *testing.T, section, toml string) {
		i, err := spec.Parse("installer.yaml", strings.NewReader("apiVersion: sealift.dev/v1\nkind: Installer\nspec:\n  kubernetes: {version: 1.36.3}\n  "+section+"\n"))
		if err != nil {
			return
		}
		i.AddOns = append(i.AddOns, spec.AddOn{Name: "containerd", Options: spec.Options{"tomlConfig": toml}})
		for _, e := range i.Executions() {
			if strings.ContainsFunc(e.String(), unicode.IsControl) {
				t.Errorf("a terminal would obey %q", e)
			}
		}
	})
}
