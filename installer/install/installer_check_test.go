package install

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/preflight"
	"github.com/sealift/sealift/spec"
)

// asking is an install whose Installer has a form and options.
func asking(t *testing.T, apiVersion, options string) *Install {
	t.Helper()
	i := made(t, with(t, "kubernetes", ""))
	s, err := spec.Parse("installer.yaml", strings.NewReader("apiVersion: "+apiVersion+"\nkind: Installer\nspec:\n"+options))
	if err != nil {
		t.Fatal(err)
	}
	i.spec, i.facts.Hostname = s, "node-1"
	i.settings = i.newSettings()
	i.vars = i.variables()
	i.hooks.variables = i.vars
	return i
}

func TestIgnoredInstallerOptionsAreReported(t *testing.T) {
	for name, row := range map[string]struct {
		options, status, message string
	}{
		"nothing of that kind":   {"  kubernetes: {version: 1.36.3, maxPodsPerNode: 50}\n", "pass", "have an effect"},
		"compliance":             {"  kubernetes: {version: 1.36.3, cisCompliance: true}\n", "pass", "have an effect"},
		"an option without one":  {"  kubernetes: {version: 1.36.3, bootstrapToken: abc}\n", "warn", "kubernetes.bootstrapToken has no effect"},
		"an option of an app":    {"  kubernetes: {version: 1.36.3}\n  ekco: {version: 0.1.0, enableInternalLoadBalancer: true}\n", "warn", "ekco.enableInternalLoadBalancer"},
		"options that are off":   {"  kubernetes: {version: 1.36.3, bootstrapToken: ''}\n  kurl: {ipv6: false}\n", "pass", ""},
		"this host":              {"  kubernetes: {version: 1.36.3}\n  kurl: {hostnameCheck: Node-1}\n", "pass", ""},
		"another host than this": {"  kubernetes: {version: 1.36.3}\n  kurl: {hostnameCheck: node-2}\n", "fail", `is for host "node-2", and this is node-1`},
	} {
		t.Run(name, func(t *testing.T) {
			i := asking(t, spec.APIVersion, row.options)
			report, err := preflight.Run(t.Context(), []preflight.Check{{Name: "installer", Probe: i.installerCheck}})
			if err != nil || len(report.Results) != 1 {
				t.Fatalf("%+v, %v", report, err)
			}
			if got := report.Results[0]; string(got.Status) != row.status || !strings.Contains(got.Message, row.message) || got.Status != preflight.Pass && got.Hint == "" {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestEachOptionWithoutEffectIsNamedWithItsOwnHint(t *testing.T) {
	i := asking(t, spec.KurlAPIVersion, "  kubernetes: {version: 1.36.3}\n  ekco: {version: 0.28.14, podImageOverrides: [a=b]}\n  kotsadm: {version: 1.117.3, applicationSlug: app}\n")
	report, err := preflight.Run(t.Context(), []preflight.Check{{Name: "installer", Probe: i.installerCheck}})
	if err != nil || len(report.Results) != 2 {
		t.Fatalf("%+v, %v", report, err)
	}
	for n, name := range []string{"ekco.podImageOverrides", "kotsadm.applicationSlug"} {
		if got := report.Results[n]; got.Status != preflight.Warn || got.Message != name+" has no effect" || got.Hint == "" {
			t.Errorf("%+v", got)
		}
	}
	if report.Results[0].Hint == report.Results[1].Hint {
		t.Error("both have the same hint")
	}
}

// TestOptionsOfCatalogueAreNamedForKurlAddOns has a package of kURL's, and one of the catalogue.
func TestOptionsOfCatalogueAreNamedForKurlAddOns(t *testing.T) {
	i := asking(t, spec.KurlAPIVersion, "  kubernetes: {version: 1.36.3}\n  velero: {version: 1.18.2, localBucket: a, volumes: false, bucketFrom: a/b}\n  registry: {version: 3.1.2, storage: volume}\n")
	ofKurl := with(t, "velero", "")
	ofKurl.fromKURL = true
	i.addOns = append(i.addOns, ofKurl, with(t, "registry", ""))
	report, err := preflight.Run(t.Context(), []preflight.Check{{Name: "installer", Probe: i.installerCheck}})
	if err != nil || len(report.Results) != 2 {
		t.Fatalf("%+v, %v", report, err)
	}
	for n, name := range []string{"velero.bucketFrom", "velero.volumes"} {
		got := report.Results[n]
		if got.Status != preflight.Warn || got.Message != name+" has no effect" || !strings.Contains(got.Hint, "use the velero of Sealift's catalogue") {
			t.Errorf("%+v", got)
		}
	}
}

func TestConflictingAddOnsAreRefusedAtInstall(t *testing.T) {
	i := asking(t, spec.APIVersion, "  kubernetes: {version: 1.36.3}\n  flannel: {version: 0.28.7}\n  weave: {version: 2.8.1}\n  kurl: {ipv6: true}\n")
	err := i.checkTogether()
	if err == nil || !strings.Contains(err.Error(), "flannel and weave: a cluster has one pod network") || !strings.Contains(err.Error(), "kurl.ipv6 true") {
		t.Errorf("got %v", err)
	}
	i.options.Join = &Join{}
	if err := i.checkTogether(); err != nil {
		t.Errorf("on a host that joins: %v", err)
	}
}

func TestKurlInstallersHaveKurlNodePorts(t *testing.T) {
	const plain = "  kubernetes: {version: 1.36.3}\n"
	for name, row := range map[string]struct{ form, options, want string }{
		"of kURL":                      {spec.KurlAPIVersion, plain, "80-60000"},
		"of kURL, which says standard": {spec.KurlAPIVersion, "  kubernetes: {version: 1.36.3, useStandardNodePortRange: true}\n", ""},
		"of Sealift":                   {spec.APIVersion, plain, ""},
	} {
		if got := asking(t, row.form, row.options).variables()[cluster.NodePorts]; got != row.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestInstallerDisablesHostPackages(t *testing.T) {
	const options = "  kubernetes: {version: 1.36.3}\n  kurl: {skipSystemPackageInstall: true}\n"
	for name, row := range map[string]struct{ manifest, status, message string }{
		"all are there":   {"apt bash\nyum bash\n", "pass", "are there"},
		"one is missing":  {"apt bash\napt no-such-package\n", "fail", "not there: no-such-package"},
		"none are needed": {"", "pass", "are there"},
	} {
		t.Run(name, func(t *testing.T) {
			i := asking(t, spec.APIVersion, options)
			i.addOns = []addOn{with(t, "kubernetes", row.manifest)}
			plan := i.makePlan()
			if slices.Contains(ids(plan), "node/packages") || i.targets() != nil {
				t.Errorf("packages are installed, for %v, in %v", i.targets(), ids(plan))
			}
			if err := i.installNamed(t.Context(), []string{"bash"}, io.Discard); err == nil || !strings.Contains(err.Error(), "skipSystemPackageInstall") {
				t.Errorf("a hook may install one: %v", err)
			}
			report, err := preflight.Run(t.Context(), []preflight.Check{{Name: "host packages", Probe: i.lackedPackages}})
			if err != nil || string(report.Results[0].Status) != row.status || !strings.Contains(report.Results[0].Message, row.message) {
				t.Errorf("got %+v, %v", report, err)
			}
		})
	}
}

func TestVeleroNeedsKurlUtilityImage(t *testing.T) {
	velero := with(t, "velero", "")
	for _, file := range realAddOns(t, "velero/1.18.2") {
		velero.texts = append(velero.texts, file.Data)
	}
	look := func(addOns ...addOn) string {
		i := made(t, addOns...)
		report, err := preflight.Run(t.Context(), []preflight.Check{{Name: "installer", Probe: i.installerCheck}})
		return fmt.Sprint(report, err, " with ", i.hooks.variables["KURL_UTIL_IMAGE"])
	}
	const refusal = "asks for velero, which needs the image kurl-util of kURL"
	if got := look(velero); !strings.Contains(got, refusal) {
		t.Errorf("without: %s", got)
	}
	const ref = "docker.io/replicated/kurl-util:v2026.08.07-0"
	if got := look(velero, with(t, "kurl-util", "image kurl-util "+ref+"\n")); strings.Contains(got, refusal) || !strings.Contains(got, " with "+ref) {
		t.Errorf("with it: %s", got)
	}
}
