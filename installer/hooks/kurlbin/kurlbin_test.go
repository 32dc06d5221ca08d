package kurlbin_test

import (
	"bytes"
	"errors"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/bcrypt"

	"github.com/sealift/sealift/installer/hooks/kurlbin"
)

func run(t *testing.T, in string, words ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	err := kurlbin.Run(t.Context(), words[0], words[1:], kurlbin.Streams{In: strings.NewReader(in), Out: &out, Err: t.Output()})
	return out.String(), err
}

func write(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, []byte(text), 0o640); err != nil {
		t.Fatal(err)
	}
	return name
}

func read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestAddressesAreFormatted(t *testing.T) {
	for given, want := range map[string]string{"10.0.0.1": "10.0.0.1\n", "fd00::1": "[fd00::1]\n", "host": "host\n", "[fd00::1]": "[fd00::1]\n"} {
		for _, words := range [][]string{{"kurl", "netutil", "format-ip-address", given}, {"kurl", "format-address", given}} {
			if got, err := run(t, "", words...); err != nil || got != want {
				t.Errorf("%v: %q, %v", words, got, err)
			}
		}
	}
}

func TestInterfaceIsFoundByAddress(t *testing.T) {
	loopback := ""
	interfaces, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range interfaces {
		if i.Flags&net.FlagLoopback != 0 {
			loopback = i.Name
		}
	}
	if got, err := run(t, "", "kurl", "netutil", "iface-from-ip", "127.0.0.1"); err != nil || got != loopback+"\n" {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := run(t, "", "kurl", "netutil", "iface-from-ip", "203.0.113.7"); err == nil {
		t.Error("an address that nobody has was found")
	}
}

// TestDefaultInterfaceNeedsRoute runs itself in a separate network with only two interfaces.
func TestDefaultInterfaceNeedsRoute(t *testing.T) {
	const inside = "SEALIFT_TEST_NETWORK"
	if os.Getenv(inside) == "" {
		cmd := exec.CommandContext(t.Context(), "unshare", "--net", "sh", "-ec", "ip link set lo up\nip link add first type veth peer name second\n"+
			"ip address add 192.0.2.1/24 dev first\nip address add 198.51.100.1/24 dev second\nip link set first up\nip link set second up\nexec \"$0\" -test.run "+t.Name()+" -test.v", os.Args[0])
		cmd.Env = append(os.Environ(), inside+"=1")
		out, err := cmd.CombinedOutput()
		if err != nil && strings.Contains(string(out), "Operation not permitted") {
			t.Skipf("networks cannot be made here: %s", out)
		}
		if err != nil {
			t.Errorf("%v: %s", err, out)
		}
		return
	}
	if got, err := run(t, "", "kurl", "netutil", "default-gateway-iface"); err != nil || got != "\n" {
		t.Errorf("without a route: %q, %v", got, err)
	}
	if out, err := exec.CommandContext(t.Context(), "ip", "route", "add", "default", "via", "192.0.2.9").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if got, err := run(t, "", "kurl", "netutil", "default-gateway-iface"); err != nil || got != "first\n" {
		t.Errorf("with a route: %q, %v", got, err)
	}
}

func TestSubnetIsFreeAndWithinItsRange(t *testing.T) {
	got, err := run(t, "", "subnet", "--subnet-alloc-range", "10.96.0.0/16", "--cidr-range", "22", "--exclude-subnet", "10.96.0.0/20")
	p, parsed := netip.ParsePrefix(strings.TrimSpace(got))
	if err != nil || parsed != nil || p.Bits() != 22 || !netip.MustParsePrefix("10.96.0.0/16").Contains(p.Addr()) || p.Overlaps(netip.MustParsePrefix("10.96.0.0/20")) {
		t.Errorf("%q, %v", got, err)
	}
}

func TestPasswordsAreHashed(t *testing.T) {
	const password = `pa$(x)"ss`
	for name, row := range map[string]struct {
		in    string
		words []string
	}{"from an argument": {"", []string{"bcrypt", "-cost", "4", password}}, "from its input": {password + "\n", []string{"bcrypt", "--cost=4"}}} {
		got, err := run(t, row.in, row.words...)
		if err != nil || bcrypt.CompareHashAndPassword([]byte(strings.TrimSpace(got)), []byte(password)) != nil {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	file := write(t, "other:hash\nkurl:old")
	if _, err := run(t, "", "htpasswd", "-u", "kurl", "-p", password, "-f", file); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(read(t, file), "\n")
	if len(lines) != 3 || lines[0] != "other:hash" || bcrypt.CompareHashAndPassword([]byte(strings.TrimPrefix(lines[1], "kurl:")), []byte(password)) != nil {
		t.Errorf("%q", lines)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	for _, user := range []string{"", "a:b", "a\nb"} {
		if _, err := run(t, "", "htpasswd", "-u", user, "-p", "x"); !errors.Is(err, kurlbin.ErrUsage) {
			t.Errorf("user %q: %v", user, err)
		}
	}
}

func TestConfigurationsOfContainerdAreMerged(t *testing.T) {
	base := write(t, "version = 2\n[plugins]\n[plugins.\"io.containerd.grpc.v1.cri\"]\nsandbox_image = \"a\"\nlist = [1, 2]\n")
	patch := write(t, "[plugins.\"io.containerd.grpc.v1.cri\"]\nlist = [3]\n[debug]\nlevel = \"de\\\"bug\"\n")
	if _, err := run(t, "", "toml", "-basefile="+base, "-patchfile="+patch); err != nil {
		t.Fatal(err)
	}
	got := read(t, base)
	for _, want := range []string{"version = 2", "sandbox_image = 'a'", "list = [3]", `level = 'de"bug'`} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in\n%s", want, got)
		}
	}
	if info, err := os.Stat(base); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if _, err := run(t, "", "toml", "-basefile="+base, "-patchfile="+write(t, "= broken")); err == nil || read(t, base) != got {
		t.Errorf("got %v", err)
	}
}

func TestYAMLIsEdited(t *testing.T) {
	for name, row := range map[string]struct {
		words         []string
		before, after string
	}{
		"a value is set":           {[]string{"-a", "-yp", "spec_replicas", "-v", "3"}, "spec:\n  replicas: 1 # how many\n", "spec:\n  replicas: 3\n"},
		"a path is made":           {[]string{"-a", "-yp", "a_b_c", "-v", "x: y"}, "", "a:\n  b:\n    c:\n      x: y\n"},
		"a list grows":             {[]string{"-a", "-yp", "l[]", "-v", "two"}, "l:\n  - one\n", "l:\n  - one\n  - two\n"},
		"a list is made":           {[]string{"-a", "-yp", "l[]_name", "-v", "x"}, "a: 1\n", "a: 1\nl:\n  - name: x\n"},
		"what is not YAML is text": {[]string{"-a", "-yp", "a", "-v", "@x: {"}, "", "a: '@x: {'\n"},
		"a value is removed":       {[]string{"-r", "-yp", "a_b"}, "a:\n  b: 1\n  c: 2\n", "a:\n  c: 2\n"},
		"an element is removed":    {[]string{"-r", "-yp", "a_0"}, "a:\n  - 1\n  - 2\n", "a:\n  - 2\n"},
		"nothing is there to go":   {[]string{"-r", "-yp", "x_y"}, "a: 1\n", "a: 1\n"},
		"every document loses it":  {[]string{"-r", "-yp", "metadata"}, "a: 1\nmetadata:\n  name: x\n---\nb: '---'\n---\n---\nmetadata: {}\nc: 2\n", "a: 1\n---\nb: '---'\n---\nc: 2\n"},
		"every document gets it":   {[]string{"-a", "-yp", "spec_replicas", "-v", "3"}, "---\nspec:\n  replicas: 1\n---\na: 1\n", "spec:\n  replicas: 3\n---\na: 1\nspec:\n  replicas: 3\n"},
	} {
		t.Run(name, func(t *testing.T) {
			file := write(t, row.before)
			if _, err := run(t, "", append([]string{"yamlutil", "-fp", file}, row.words...)...); err != nil || read(t, file) != row.after {
				t.Errorf("got %q, %v; want %q", read(t, file), err, row.after)
			}
			if got, err := run(t, "", append([]string{"yamlutil", "-yc", row.before}, row.words...)...); err != nil || got != row.after {
				t.Errorf("as text: %q, %v", got, err)
			}
		})
	}
	if got, err := run(t, "", "yamlutil", "-p", "-yc", "a: {b: [x, y]}", "-yp", "a_b_1"); err != nil || got != "y\n" {
		t.Errorf("%q, %v", got, err)
	}
	installer := write(t, "apiVersion: cluster.kurl.sh/v1beta1\nspec:\n  weave: {version: latest}\n  docker:\n    version: 20.10.5\n    daemonConfig: |\n      a test with newlines\n      and quotes\"\n")
	for path, want := range map[string]string{
		"spec.weave": `{"version":"latest"}`, "spec.weave.version": `"latest"`,
		"spec.docker": `{"daemonConfig":"a test with newlines\nand quotes\"\n","version":"20.10.5"}`,
	} {
		if got, err := run(t, "", "yamlutil", "-j", "-fp", installer, "-jf", path); err != nil || got != want+"\n" {
			t.Errorf("%s: %q, %v", path, got, err)
		}
	}
	if got, err := run(t, "", "yamlutil", "-j", "-yc", `{"a": {"b": [1, null]}}`, "-jf", "a.b"); err != nil || got != "[1,null]\n" {
		t.Errorf("%q, %v", got, err)
	}
	for _, words := range [][]string{{"-j", "-fp", installer, "-jf", "spec.longhorn"}, {"-j", "-yc", "a: 1", "-jf", "a.b"}, {"-p", "-yc", "a: 1", "-yp", "b"}, {"-a", "-yc", "a: 1", "-yp", "a_b", "-v", "1"}, {"-yc", "a: 1"}} {
		if got, err := run(t, "", append([]string{"yamlutil"}, words...)...); err == nil {
			t.Errorf("%v gave %q", words, got)
		}
	}
}

func TestUnsupportedKurlCallsAreRefused(t *testing.T) {
	for _, words := range []string{"kurl rook flexvolume-to-csi", "kurl object-store sync --x y", "pvmigrate --source-sc a", "kurl longhorn prepare-for-migration"} {
		if _, err := run(t, "", strings.Fields(words)...); err == nil || !strings.Contains(err.Error(), "are not moved between storage systems") {
			t.Errorf("%s: %v", words, err)
		}
	}
	for _, words := range []string{"kurl", "kurl unheard of", "nothing", "kurl rook wait-for-health soon", "kurl rook wait-for-rook-version", "subnet --cidr-range x"} {
		if _, err := run(t, "", strings.Fields(words)...); !errors.Is(err, kurlbin.ErrUsage) {
			t.Errorf("%s: %v", words, err)
		}
	}
}

func FuzzYAML(f *testing.F) {
	f.Add("a: {b: [x]}", "a_b_0", "v", true)
	f.Add("l: &x [1]\nm: *x", "m[]_a", "{", true)
	f.Add("- a", "0", "", false)
	f.Add("", "", "", false)
	f.Fuzz(func(t *testing.T, text, path, value string, add bool) {
		action := "-r"
		if add {
			action = "-a"
		}
		var out bytes.Buffer
		err := kurlbin.Run(t.Context(), "yamlutil", []string{action, "-yc", text, "-yp", path, "-v", value}, kurlbin.Streams{Out: &out, Err: t.Output()})
		if err == nil && out.Len() == 0 {
			t.Error("done, and said nothing")
		}
	})
}
