package engine

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	release "helm.sh/helm/v4/pkg/release/v1"
	releaseutil "helm.sh/helm/v4/pkg/release/v1/util"
	"sigs.k8s.io/yaml"
)

// knownHooks refuses hooks that Helm does not know and would omit silently, such as Helm 2's crd-install. Only the annotations
// of a whole document make it a hook, not those of an item of a list or of an object in a text.
func knownHooks(files map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(files)) {
		for _, document := range releaseutil.SplitManifests(files[name]) {
			var head releaseutil.SimpleHead
			if yaml.Unmarshal([]byte(document), &head) != nil || head.Metadata == nil { // which SortManifests refuses
				continue
			}
			hooks, is := head.Metadata.Annotations[release.HookAnnotation]
			for hook := range strings.SplitSeq(hooks, ",") {
				if hook = strings.ToLower(strings.TrimSpace(hook)); is && !slices.Contains(hookNames(), hook) {
					return fmt.Errorf("%s: Helm does not know the hook %q", name, hook)
				}
			}
		}
	}
	return nil
}

func hookNames() []string {
	names := []string{"test-success"} // the old name of test
	for _, event := range []release.HookEvent{
		release.HookPreInstall, release.HookPostInstall, release.HookPreDelete, release.HookPostDelete, release.HookPreUpgrade,
		release.HookPostUpgrade, release.HookPreRollback, release.HookPostRollback, release.HookTest,
	} {
		names = append(names, event.String())
	}
	return names
}

func events(h *release.Hook) (names []string) {
	for _, e := range h.Events {
		names = append(names, e.String())
	}
	return names
}
