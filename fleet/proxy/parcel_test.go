package proxy_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sealift/sealift/fleet/agent"
	"github.com/sealift/sealift/fleet/caaph"
	"github.com/sealift/sealift/fleet/carry"
	"github.com/sealift/sealift/fleet/hub"
	"github.com/sealift/sealift/fleet/inventory"
	"github.com/sealift/sealift/fleet/join"
	"github.com/sealift/sealift/fleet/ledger"
	"github.com/sealift/sealift/fleet/ocm"
	"github.com/sealift/sealift/kube"
)

// ship is a carried cluster, with the hub that packs for it.
type ship struct {
	*room
	hub     carry.Hub
	carried agent.Carried
	usb     string
}

func (r *room) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// ship joins a cluster to which the hub has no kubeconfig.
func (r *room) ship(name string) *ship {
	r.t.Helper()
	s := &ship{room: r, usb: r.t.TempDir()}
	cluster, err := kube.Connect(r.config, nil)
	r.must(err)
	l, err := ledger.Open(cluster, hub.DefaultNamespace)
	r.must(err)
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, coordinationv1.AddToScheme, ocm.AddToScheme, caaph.AddToScheme} {
		r.must(add(scheme))
	}
	c, err := client.New(r.config, client.Options{Scheme: scheme})
	r.must(err)
	s.hub = carry.Hub{Client: c, Ledger: l, Now: time.Now}
	key, err := l.Key(r.t.Context())
	r.must(err)
	public, err := key.Public()
	r.must(err)
	text, err := join.Hub(r.t.Context(), cluster, join.Cluster{Name: name, HubKey: &public, Annotations: map[string]string{inventory.Carried: "true", inventory.ClusterNamespace: r.namespace}})
	r.must(err)
	m, err := join.Read(text)
	r.must(err)
	s.carried = agent.Carried{
		Local: r.config, Cluster: m.Cluster, Server: m.Server, Keys: m.HubKeys, Key: m.Key, Look: 50 * time.Millisecond,
		Content: filepath.Join(s.usb, "content"), Report: filepath.Join(s.usb, "report"),
	}
	r.create(r.t, fmt.Sprintf("apiVersion: cluster.x-k8s.io/v1beta2\nkind: Cluster\nmetadata: {name: %s, namespace: %s}\n", name, r.namespace))
	return s
}

// trip packs a parcel, applies it, and reads the report.
func (s *ship) trip(since bool) (packed carry.Packed, applied agent.Applied, taken carry.Taken) {
	s.t.Helper()
	p := carry.Pack{Cluster: s.carried.Cluster, Out: filepath.Join(s.usb, "parcel")}
	var err error
	if since {
		p.Since, err = os.ReadFile(s.carried.Report)
		s.must(err)
	}
	packed, err = s.hub.Pack(s.t.Context(), p)
	s.must(err)
	applied, err = agent.Apply(s.t.Context(), s.carried, p.Out, false)
	s.must(err)
	return packed, applied, s.take()
}

func (s *ship) take() carry.Taken {
	s.t.Helper()
	text, err := os.ReadFile(s.carried.Report)
	s.must(err)
	taken, err := s.hub.Take(s.t.Context(), text, false)
	s.must(err)
	return taken
}

// testCarried carries a chart to a disconnected cluster: installed, upgraded, failed, repaired and removed by parcels.
func testCarried(r *room) {
	s := r.ship("ship")
	spec := "clusterSelector: {}, repoURL: \"" + r.registry + "\", version: 1.0.0, valuesTemplate: \"text: {{ .Cluster.metadata.name }}\""
	r.proxy("web", "", spec)
	hrp := r.want("ship", "ClusterAvailable", "False WaitsForParcel")
	name := r.namespace + "/" + hrp.Name
	stranger := &caaph.HelmReleaseProxy{ObjectMeta: metav1.ObjectMeta{Name: "stranger", Namespace: "default", Labels: map[string]string{caaph.ClusterLabel: "ship"}}, Spec: hrp.Spec}
	stranger.Spec.ClusterRef.Namespace = "" // of another namespace: in no parcel
	r.must(r.Create(r.t.Context(), stranger))
	planned, err := s.hub.Pack(r.t.Context(), carry.Pack{Cluster: "ship", Plan: true})
	if err != nil || !slices.Equal(planned.Releases, []string{name}) || len(r.hrps()["ship"].Annotations) != len(hrp.Annotations) {
		r.t.Errorf("planned %+v, %v: %v", planned, err, r.hrps()["ship"].Annotations)
	}

	r.t.Log("installed")
	packed, applied, taken := s.trip(false)
	if !slices.Equal(packed.Releases, []string{name}) || !slices.Equal(applied.Releases, packed.Releases) || !slices.Equal(taken.Releases, packed.Releases) || len(applied.Waiting) != 0 {
		r.t.Errorf("packed %+v\napplied %+v\ntaken %+v", packed, applied, taken)
	}
	hrp = r.want("ship", "Ready", "True")
	release := hrp.Spec.ReleaseName
	if hrp.Annotations[caaph.GeneratedName] != "true" || hrp.Annotations[caaph.Installed] != "true" || !strings.HasPrefix(release, "web-") || hrp.Status.Status != "deployed" || hrp.Status.Revision != 1 {
		r.t.Errorf("installed: %+v", hrp)
	}
	if d := r.data(release); d["text"] != "ship" || d["version"] != "1.0.0" {
		r.t.Errorf("the cluster has %v", d)
	}
	r.wantChart("web", "Ready", "True")
	if _, err := agent.Apply(r.t.Context(), s.carried, "", false); err != nil {
		r.t.Fatal(err)
	}
	if again := s.take(); !slices.Equal(again.Releases, packed.Releases) || len(again.Behind) != 0 {
		r.t.Errorf("a second report on the parcel that named the release: taken %+v", again)
	}
	r.want("ship", "Ready", "True")

	r.t.Log("nothing to do makes no revision, and a report alone says the same")
	if s.trip(true); r.want("ship", "Ready", "True").Status.Revision != 1 {
		r.t.Errorf("there is a new revision: %+v", r.hrps()["ship"].Status)
	}
	if looked, err := agent.Apply(r.t.Context(), s.carried, "", false); err != nil || len(looked.Waiting) != 0 || !slices.Equal(looked.Releases, packed.Releases) {
		r.t.Errorf("looked at %+v, %v", looked, err)
	}
	if taken := s.take(); !slices.Equal(taken.Releases, packed.Releases) {
		r.t.Errorf("taken %+v", taken)
	}

	r.t.Log("upgraded, with a report that comes too late")
	r.change("web", `{"spec": {"version": "1.1.0"}}`)
	r.want("ship", "ClusterAvailable", "False WaitsForParcel")
	if _, err := agent.Apply(r.t.Context(), s.carried, "", false); err != nil {
		r.t.Fatal(err)
	}
	if late := s.take(); len(late.Behind) != 1 || len(late.Releases) != 0 {
		r.t.Errorf("taken %+v", late)
	}
	s.trip(true)
	if hrp = r.want("ship", "Ready", "True"); hrp.Status.Revision != 2 || r.data(release)["version"] != "1.1.0" {
		r.t.Errorf("upgraded: %+v, %v", hrp.Status, r.data(release))
	}

	r.t.Log("a chart that fails says so on the hub, and the old values repair it")
	r.change("web", `{"spec": {"valuesTemplate": "fail: true"}}`)
	r.want("ship", "ClusterAvailable", "False WaitsForParcel")
	packed, applied, _ = s.trip(true)
	if len(packed.Unknown) != 1 || !slices.Equal(applied.Waiting, []string{name}) {
		r.t.Errorf("packed %+v, applied %+v", packed, applied)
	}
	r.want("ship", "HelmReleaseReady", "it does not work here")
	if looked, err := agent.Apply(r.t.Context(), s.carried, "", false); err != nil || !slices.Equal(looked.Waiting, []string{name}) {
		r.t.Errorf("looked at a release that failed: %+v, %v", looked, err)
	}
	s.take()
	r.want("ship", "HelmReleaseReady", "False HelmInstallOrUpgradeFailed the cluster does not have the chart and the values")
	r.change("web", `{"spec": {"valuesTemplate": "text: again"}}`)
	r.want("ship", "ClusterAvailable", "False WaitsForParcel")
	s.trip(true)
	r.want("ship", "Ready", "True")
	if d := r.data(release); d["text"] != "again" {
		r.t.Errorf("the cluster has %v", d)
	}

	r.t.Log("removed by a parcel; one that was never packed goes at once")
	r.proxy("never", "", spec+", releaseName: never")
	r.eventually("there are two releases", func() (bool, string) {
		var list caaph.HelmReleaseProxyList
		err := r.List(r.t.Context(), &list, client.InNamespace(r.namespace))
		return err == nil && len(list.Items) == 2, fmt.Sprint(err, len(list.Items))
	})
	r.remove("never")
	r.must(r.Delete(r.t.Context(), r.hcp("web")))
	r.eventually("the release is to go", func() (bool, string) {
		hrp := r.hrps()["ship"]
		return !hrp.DeletionTimestamp.IsZero(), fmt.Sprint(hrp.ObjectMeta)
	})
	packed, _, taken = s.trip(true)
	if !slices.Equal(packed.Deleted, []string{name}) || !slices.Equal(taken.Gone, []string{name}) || r.data(release) != nil {
		r.t.Errorf("packed %+v, taken %+v, left %v", packed, taken, r.data(release))
	}
	r.eventually("nothing is left on the hub", func() (bool, string) {
		err := r.Get(r.t.Context(), client.ObjectKey{Namespace: r.namespace, Name: "web"}, new(caaph.HelmChartProxy))
		return client.IgnoreNotFound(err) == nil && err != nil && len(r.hrps()) == 0, fmt.Sprint(err, r.hrps())
	})
}
