package spec_test

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sealift/sealift/internal/testing/released"
	"github.com/sealift/sealift/spec"
)

// releasedInstaller has an add-on of kURL's, one of others, a section, and each kind of value.
const releasedInstaller = `apiVersion: sealift.dev/v1
kind: Installer
metadata:
  name: demo
spec:
  containerd:
    version: 2.2.1
  kubernetes:
    version: 1.36.x
    maxPodsPerNode: 110
    containerLogMaxSize: 5Mi
  metricsServer:
    version: latest
  greeter:
    version: 1.0.0
    greeting: hello
    ratio: 0.5
    loud: true
    names: [one, two]
    more: {depth: 2}
  kurl:
    proxyAddress: http://proxy.example.com:3128
    additionalNoProxyAddresses: [10.0.0.0/8]
`

// TestInstallersOfReleasesAreRead: people keep the Installers that they wrote.
func TestInstallersOfReleasesAreRead(t *testing.T) {
	want := []spec.AddOn{
		{Name: "containerd", Key: "containerd", Version: "2.2.1", Options: spec.Options{}},
		{Name: "kubernetes", Key: "kubernetes", Version: "1.36.x", Options: spec.Options{"maxPodsPerNode": int64(110), "containerLogMaxSize": "5Mi"}},
		{Name: "metrics-server", Key: "metricsServer", Version: "latest", Options: spec.Options{}},
		{Name: "greeter", Key: "greeter", Version: "1.0.0", Options: spec.Options{
			"greeting": "hello", "ratio": 0.5, "loud": true, "names": []any{"one", "two"}, "more": map[string]any{"depth": int64(2)}}},
	}
	released.Test(t, released.Format{
		Name:  "installer.yaml",
		Write: func(t *testing.T, file string) { released.Put(t, file, []byte(releasedInstaller)) },
		Read: func(t *testing.T, file string) {
			f, err := os.Open(file)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			i, err := spec.Parse(file, f)
			if err != nil {
				t.Fatal(err)
			}
			addOns := make([]spec.AddOn, len(i.AddOns))
			for n, a := range i.AddOns {
				addOns[n] = spec.AddOn{Name: a.Name, Key: a.Key, Version: a.Version, Options: a.Options}
			}
			if diff := cmp.Diff(want, addOns); diff != "" || i.APIVersion != spec.APIVersion || i.Name != "demo" {
				t.Errorf("%s %s\n%s", i.APIVersion, i.Name, diff)
			}
			if diff := cmp.Diff(spec.Options{"proxyAddress": "http://proxy.example.com:3128", "additionalNoProxyAddresses": []any{"10.0.0.0/8"}}, i.Section("kurl").Options); diff != "" {
				t.Error(diff)
			}
			if findings := i.Check(); len(findings) > 0 {
				t.Error(findings)
			}
		},
	})
}
