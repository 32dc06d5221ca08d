package upstreamfiles

import (
	"strings"
	"testing"

	"github.com/sealift/sealift/installer/hooks/hook"
)

// registryCluster is kubectl for a hook: the cluster has the object that the file beside it names. It does not answer if that is "away".
const registryCluster = `#!/bin/sh
has=$(cat "$(dirname "$0")/has")
[ "$has" != away ] || exit 1
case " $* " in
*" get $has "*) echo there ;;
*" --ignore-not-found "*) ;;
*" get nodes "*) printf '10.0.0.3\n10.0.0.2 fd00::2\n' ;;
*) exit 1 ;;
esac
`

// What a cluster has whose registry keeps its images in a bucket, or on a volume.
const registryBucket, registryClaim = "secret registry-bucket", "persistentvolumeclaim registry-data"

// registryRun calls the checks of the add-on, and then one of its functions: the hook would change containerd of this host.
func registryRun(has, function string, beside []string, options hook.Variables) hooksRun {
	all := hook.Variables{"KUBECONFIG": "/dev/null"} // a cluster is there
	all.Add(options)
	return hooksRun{name: "registry", instead: function, beside: beside, options: all, files: map[string]string{"bin/kubectl": registryCluster, "bin/has": has}}
}

// TestRegistryNeedsObjectStoreOfItsImages: without the store, an install would end after all nodes were changed.
func TestRegistryNeedsObjectStoreOfItsImages(t *testing.T) {
	for name, with := range map[string]struct {
		has, storage string
		beside       []string
		refused      bool
	}{
		"a bucket":                     {has: registryBucket, refused: true},
		"a bucket, another option":     {has: registryBucket, storage: "volume", refused: true},
		"a bucket, and the store":      {has: registryBucket, beside: []string{"object-store"}},
		"a volume, another option":     {has: registryClaim, storage: "object-store"},
		"nothing":                      {},
		"nothing, and the option":      {storage: "object-store", refused: true},
		"nothing, option and store":    {storage: "object-store", beside: []string{"object-store"}},
		"no answer":                    {has: "away"},
		"no answer, and the option":    {has: "away", storage: "object-store", refused: true},
		"no answer, and another store": {has: "away", storage: "volume"},
	} {
		_, said, err := registryRun(with.has, ":", with.beside, hook.Variables{"REGISTRY_STORAGE": with.storage}).call(t)
		if refused := strings.Contains(said, "name objectStore in the Installer"); refused != with.refused || (err != nil) != with.refused {
			t.Errorf("%s: %v; said %q", name, err, said)
		}
	}
}

// TestRegistryStaysWhereItsImagesAre: no option moves images, and no question that the cluster does not answer.
func TestRegistryStaysWhereItsImagesAre(t *testing.T) {
	store := []string{"object-store"}
	for name, with := range map[string]struct {
		has, storage string
		beside       []string
		want         string // "" for an error
	}{
		"a bucket":                 {registryBucket, "volume", store, "object-store"},
		"a volume":                 {registryClaim, "object-store", store, "volume"},
		"nothing":                  {"", "", nil, "volume"},
		"nothing, and an option":   {"", "volume", store, "volume"},
		"nothing, and a store":     {"", "", store, "object-store"},
		"no answer":                {"away", "", store, ""},
		"no answer, and no store":  {"away", "", nil, ""},
		"no answer, and an option": {"away", "volume", store, ""},
	} {
		_, said, err := registryRun(with.has, "registry_storage", with.beside, hook.Variables{"REGISTRY_STORAGE": with.storage}).call(t)
		if (err != nil) != (with.want == "") || strings.TrimSpace(said) != with.want {
			t.Errorf("%s: %v; said %q, want %q", name, err, said, with.want)
		}
	}
}

// TestRegistryCertificateIsGoodForPublishingNodes: clients outside of the cluster may ask any node.
func TestRegistryCertificateIsGoodForPublishingNodes(t *testing.T) {
	for name, with := range map[string]struct {
		has     string
		options hook.Variables
		want    string // "" for an error
	}{
		"no port":                      {"", hook.Variables{"PUBLIC_ADDRESS": "192.0.2.1"}, "10.0.0.2"},
		"a port":                       {"", hook.Variables{"REGISTRY_PUBLISH_PORT": "30443"}, "10.0.0.2\n10.0.0.3\nfd00::2"},
		"a port, and a public address": {"", hook.Variables{"REGISTRY_PUBLISH_PORT": "30443", "PUBLIC_ADDRESS": "192.0.2.1"}, "10.0.0.2\n10.0.0.3\n192.0.2.1\nfd00::2"},
		"a port, and no answer":        {"away", hook.Variables{"REGISTRY_PUBLISH_PORT": "30443"}, ""},
	} {
		with.options.Add(hook.Variables{"PRIVATE_ADDRESS": "10.0.0.2"})
		_, said, err := registryRun(with.has, "registry_addresses", nil, with.options).call(t)
		if (err != nil) != (with.want == "") || strings.TrimSpace(said) != with.want {
			t.Errorf("%s: %v; said %q, want %q", name, err, said, with.want)
		}
	}
}
