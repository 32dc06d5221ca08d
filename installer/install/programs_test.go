package install

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/sealift/sealift/installer/host"
	"github.com/sealift/sealift/internal/releases"
	"github.com/sealift/sealift/preflight"
)

// programs is a PATH of one folder that has programs.
func programs(t *testing.T, names ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range names {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// bundled is a bundle on a host, as far as its hooks are read.
func bundled(t *testing.T, text string, files []txtar.File, facts host.Facts) *Install {
	t.Helper()
	i := &Install{job: job{contents: contents{archive: openBundle(t, kurlBundle(t, text, files))}, hostFacts: hostFacts{facts: facts}}}
	err := i.readSpec()
	if err == nil {
		i.addOns, err = readAddOns(i.archive, i.spec)
	}
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// missing are the answers about programs, as "fail: message; hint".
func missing(t *testing.T, i *Install, joins bool, path string) (lines []string) {
	t.Helper()
	report, err := preflight.Run(t.Context(), []preflight.Check{i.programsCheck(joins, path)})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range report.Results {
		lines = append(lines, string(r.Status)+": "+r.Message+"; "+r.Hint)
	}
	return lines
}

const allOfKurls = `apiVersion: cluster.kurl.sh/v1beta1
kind: Installer
metadata: {name: 1a2b3c4}
spec:
  containerd: {version: 2.2.6}
  flannel: {version: 0.28.7}
  openebs: {version: 4.5.1, isLocalPVEnabled: true, localPVStorageClassName: default}
  minio: {version: 2025-10-15T17-29-55Z}
  registry: {version: 3.1.1}
  certManager: {version: 1.21.0}
  contour: {version: 1.32.1}
  metricsServer: {version: 0.8.1}
  goldpinger: {version: 3.11.2-1.1.2}
  ekco: {version: 0.28.14}
  velero: {version: 1.18.2}
`

// TestKurlProgramsAreProvided looks for the programs of kURL's own add-ons, all eleven unchanged. ekco calls curl for a load
// balancer that is always off.
func TestKurlProgramsAreProvided(t *testing.T) {
	utility := []txtar.File{{Name: "kurl-util/v1.0.0/Manifest", Data: []byte("image kurl-util replicated/kurl-util:v1.0.0 # programs\n")}, {Name: "kurl-util/v1.0.0/install.sh"}} // velero brings it along
	i := bundled(t, allOfKurls, append(utility, realAddOns(t, "containerd/2.2.6", "flannel/0.28.7", "openebs/4.5.1", "minio/2025-10-15T17-29-55Z", "registry/3.1.1", "cert-manager/1.21.0",
		"contour/1.32.1", "metrics-server/0.8.1", "goldpinger/3.11.2-1.1.2", "ekco/0.28.14", "velero/1.18.2")...), host.Facts{Distribution: "rocky", Version: "9.5"})
	const (
		which   = "fail: which is not there, and nothing in the bundle brings it; hooks call it (containerd); install it, with 'apt-get install debianutils' or 'dnf install which'"
		curl    = "fail: curl is not there, and nothing in the bundle brings it; hooks call it (minio); install it, with 'apt-get install curl' or 'dnf install curl'"
		openssl = "fail: openssl is not there, and nothing in the bundle brings it; hooks call it (registry); install it, with 'apt-get install openssl' or 'dnf install openssl'"
		lspci   = "warn: lspci is not there; hooks that call it (flannel) go on without it; " +
			"install it, with 'apt-get install pciutils' or 'dnf install pciutils', so that the add-on finds it"
		all = "pass: those that hooks call are there; "
	)
	for name, row := range map[string]struct {
		joins bool
		has   []string
		want  []string
	}{
		"an empty host":                    {false, nil, []string{which, lspci, curl, openssl}},
		"a bare Debian":                    {false, []string{"which"}, []string{lspci, curl, openssl}},
		"a server of Ubuntu":               {false, []string{"which", "curl", "openssl"}, []string{lspci}},
		"one that has them all":            {false, []string{"which", "curl", "openssl", "lspci"}, []string{all}},
		"an empty host that joins":         {true, nil, []string{which}},
		"a host that joins, and has which": {true, []string{"which"}, []string{all}},
	} {
		t.Run(name, func(t *testing.T) {
			got := missing(t, i, row.joins, programs(t, row.has...))
			slices.Sort(got)
			slices.Sort(row.want)
			if !slices.Equal(got, row.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(row.want, "\n"))
			}
		})
	}
}

// TestCatalogueNeedsNoHostPrograms has the newest version of each add-on, on a host without any program.
func TestCatalogueNeedsNoHostPrograms(t *testing.T) {
	text, files := "apiVersion: sealift.dev/v1\nkind: Installer\nspec:\n", []txtar.File(nil)
	for _, name := range []string{"containerd", "kubernetes", "flannel", "local-path-provisioner", "metrics-server"} {
		versions := releases.Of(name, releases.Shipped)
		name += "/" + versions[len(versions)-1].Version
		files = append(files, filesBelow(t, filepath.Join("../../addons", name), name)...)
		text += "  " + strings.Replace(name, "/", ": {version: ", 1) + "}\n"
	}
	for _, distribution := range []string{"debian", "rocky"} {
		i := bundled(t, text, files, host.Facts{Distribution: distribution, Version: "12"})
		for _, joins := range []bool{false, true} {
			if got := missing(t, i, joins, programs(t)); len(got) != 1 || !strings.HasPrefix(got[0], "pass: ") {
				t.Errorf("%s, joins %v: %q", distribution, joins, got)
			}
		}
	}
}

// TestProgramProvidersAreFound has add-ons that call curl, in bundles and on hosts that bring it or do not.
func TestProgramProvidersAreFound(t *testing.T) {
	const calls = "caller() { curl https://example.org; other_function; }\n"
	for name, row := range map[string]struct {
		script, manifest, other string
		want                    string
	}{
		"nothing":                                {calls, "", "", "fail: curl is not there"},
		"a package of the add-on":                {calls, "apt curl\n", "", "pass"},
		"a package of another add-on":            {calls, "", "apt curl\n", "pass"},
		"a package of another system":            {calls, "yum curl\n", "", "fail: curl is not there"},
		"a program that comes as a file":         {"caller() { crictl ps; }\n", "", "", "fail: crictl is not there, and nothing in the bundle brings it; hooks call it (caller); take it from a release"},
		"an asset":                               {calls, "asset curl https://example.org/curl\n", "", "pass"},
		"a function of another add-on":           {"caller() { other; }\n", "", "", "pass"},
		"a hook that does not run":               {"caller() { :; }\ncaller_join() { curl; }\n", "", "", "pass"},
		"a call after a look":                    {"caller() { ! commandExists curl || curl; }\n", "", "", "pass"},
		"a condition":                            {"caller() { if curl; then echo; fi; }\n", "", "", "warn: curl is not there"},
		"a condition that is negated":            {"caller() { if ! curl; then exit 1; fi; }\n", "", "", "fail: curl is not there"},
		"a condition with an alternative":        {"caller() { if curl; then echo; else exit 1; fi; }\n", "", "", "fail: curl is not there"},
		"a condition that reads what it prints":  {"caller() { if [ $(curl) = 1 ]; then echo; fi; }\n", "", "", "fail: curl is not there"},
		"a call whose failure does no harm":      {"caller() { curl || true; }\n", "", "", "warn: curl is not there"},
		"both a condition and a call without it": {"caller() { if curl; then echo; fi; curl; }\n", "", "", "fail: curl is not there"},
		"an option that is always off":           {"caller() { if [ \"$" + internalBalancer + "\" = \"1\" ]; then curl; fi; }\n", "", "", "pass"},
		"an option that may be on":               {"caller() { if [ \"$CALLER_ON\" = \"1\" ]; then curl; fi; }\n", "", "", "fail: curl is not there"},
	} {
		t.Run(name, func(t *testing.T) {
			files := []txtar.File{
				{Name: "caller/1/Manifest", Data: []byte(row.manifest)}, {Name: "caller/1/install.sh", Data: []byte(row.script)},
				{Name: "other/1/Manifest", Data: []byte(row.other)}, {Name: "other/1/install.sh", Data: []byte("other() { :; }\n")},
			}
			i := bundled(t, "apiVersion: sealift.dev/v1\nkind: Installer\nspec:\n  caller: {version: 1}\n  other: {version: 1}\n", files, host.Facts{Distribution: "debian", Version: "12"})
			if got := missing(t, i, false, programs(t)); len(got) != 1 || !strings.HasPrefix(got[0], row.want) {
				t.Errorf("got %q, want %q", got, row.want)
			}
		})
	}
}
