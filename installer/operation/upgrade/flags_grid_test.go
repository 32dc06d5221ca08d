//go:build grid

package upgrade

import (
	"context"
	"strings"
	"testing"

	"github.com/sealift/sealift/installer/cluster/kubeadm"
	"github.com/sealift/sealift/internal/releases"
	"github.com/sealift/sealift/internal/testing/lab"
	"github.com/sealift/sealift/preflight"
	"github.com/sealift/sealift/testgrid/lab/upstream"
)

// removedBy137 are feature gates that Kubernetes 1.36 knows, and 1.37 does not.
var removedBy137 = strings.Fields(`APIServerTracing AnonymousAuthConfigurableEndpoints AnyVolumeDataSource AuthorizeNodeWithSelectors
AuthorizeWithSelectors BtreeWatchCache ConsistentListFromCache GangScheduling JobBackoffLimitPerIndex JobPodReplacementPolicy JobSuccessPolicy
LogarithmicScaleDown OrderedNamespaceDeletion PodLifecycleSleepAction PodLifecycleSleepActionAllowZero PreventStaticPodAPIReferences
RelaxedDNSSearchValidation ResilientWatchCacheInitialization RetryGenerateName SchedulerQueueingHints SidecarContainers
StreamingCollectionEncodingToJSON StreamingCollectionEncodingToProtobuf StructuredAuthenticationConfiguration WorkloadAwarePreemption`)

// TestRemovedGatesAreFoundBeforeUpgrade tries the real programs of Kubernetes 1.37 and of the release before on gates that 1.37 removed, in
// the flags of the API server and in the configuration of the kubelets.
func TestRemovedGatesAreFoundBeforeUpgrade(t *testing.T) {
	list := releases.Of("kubernetes", releases.Lab)
	for _, r := range list {
		if strings.HasPrefix(r.Version, "1.37.") {
			triesGates(t, r, true)
			triesGates(t, r.Before(), false)
		}
	}
}

func triesGates(t *testing.T, r releases.Release, removed bool) {
	w := lab.Workshop(t)
	fetch := func(ctx context.Context, name, _ string) (string, error) {
		return w.File(ctx, upstream.FileOf{Component: "kubernetes-v" + r.Version, Name: name})
	}
	dir := t.TempDir()
	for _, gate := range removedBy137 {
		config, err := kubeadm.ParseConfig([]byte("apiServer: {extraArgs: [{name: feature-gates, value: \"" + gate + "=true\"}]}\n"))
		if err != nil {
			t.Fatal(err)
		}
		all, err := controlPlaneFlags(config, []byte(newBase))
		if err != nil {
			t.Fatal(err)
		}
		kubelet, err := plannedKubelet([]byte("apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nfeatureGates: {"+gate+": true}\n"), nil)
		if err != nil {
			t.Fatal(err)
		}
		refused := 0
		for _, result := range results(t, preflight.Check{Name: "flags", Probe: func(ctx context.Context, p *preflight.Reporter) {
			tryAll(ctx, append(all, *kubelet), dir, fetch, p)
		}}) {
			if result.Status == preflight.Fail && strings.HasSuffix(result.Message, "unrecognized feature gate: "+gate) {
				refused++
			}
		}
		if want := map[bool]int{true: 2, false: 0}[removed]; refused != want {
			t.Errorf("Kubernetes %s with the gate %s: %d programs refuse it, want %d", r.Version, gate, refused, want)
		}
	}
}
