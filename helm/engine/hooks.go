package engine

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	release "helm.sh/helm/v4/pkg/release/v1"
)

// hookLine is a line that makes an object a hook.
var hookLine = regexp.MustCompile(`(?m)^\s*["']?helm\.sh/hook["']?:[ \t]*["']?([a-zA-Z, -]+)`)

// knownHooks refuses hooks that Helm does not know and would leave out without a word, such as Helm 2's crd-install.
func knownHooks(files map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(files)) {
		for _, line := range hookLine.FindAllStringSubmatch(files[name], -1) {
			for hook := range strings.SplitSeq(line[1], ",") {
				if hook = strings.ToLower(strings.TrimSpace(hook)); !slices.Contains(hookNames(), hook) {
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
