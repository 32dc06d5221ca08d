package control_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/catalog/packages"
	"github.com/sealift/sealift/fleet/agent"
	"github.com/sealift/sealift/fleet/carry"
	"github.com/sealift/sealift/fleet/hub"
	"github.com/sealift/sealift/fleet/inventory"
	"github.com/sealift/sealift/fleet/join"
	"github.com/sealift/sealift/fleet/ledger"
	"github.com/sealift/sealift/fleet/ocm"
	"github.com/sealift/sealift/fleet/seal"
	"github.com/sealift/sealift/fleet/view"
	"github.com/sealift/sealift/internal/testing/controlplane"
	"github.com/sealift/sealift/store"
)

// carriedVariable makes this binary apply a parcel. It has the arguments of applyParcel.
const carriedVariable = "SEALIFT_TEST_PARCEL"

// ship is a cluster that is reached by parcels.
type ship struct {
	*grid
	dir   string
	local *rest.Config
	hub   carry.Hub
	road  *road
}

// road delivers images to the nodes of the ship, or returns why it cannot.
type road struct {
	*ship
	closed  string // why it cannot
	cut     bool   // once, halfway
	brought []string
}

func (r *road) Check(context.Context) error {
	if r.closed != "" {
		return errors.New(r.closed)
	}
	return nil
}

// Bring finds a complete bundle. It records its images, and which image runs on the ship in the meantime.
func (r *road) Bring(ctx context.Context, folder string) ([]string, error) {
	a, err := bundle.Open(folder)
	if err != nil {
		return nil, err
	}
	for _, p := range a.Index.Packages {
		for _, image := range p.Images {
			r.brought = append(r.brought, image.Ref+" before "+r.image("ship"))
		}
	}
	if r.cut {
		r.cut = false
		return nil, errors.Join(errors.New("a node is gone"), a.Close())
	}
	return nil, errors.Join(a.Verify(ctx), a.Close())
}

// arguments of applyParcel are files.
type arguments struct{ Joined, Local, Parcel, Content, Report string }

func applyParcel() int {
	var in arguments
	err := json.Unmarshal([]byte(os.Getenv(carriedVariable)), &in)
	if err == nil {
		var text []byte
		var c agent.Carried
		text, err = os.ReadFile(in.Joined)
		if err == nil {
			c, err = carriedBy(text)
		}
		if err == nil {
			c.Local, err = clientcmd.BuildConfigFromFlags("", in.Local)
		}
		if err == nil {
			c.Content, c.Report, c.Wait = in.Content, in.Report, time.Minute
			_, err = agent.Apply(context.Background(), c, in.Parcel, false)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func carriedBy(kubeconfig []byte) (agent.Carried, error) {
	m, err := join.Read(kubeconfig)
	return agent.Carried{Cluster: m.Cluster, Server: m.Server, Keys: m.HubKeys, Key: m.Key, Look: 50 * time.Millisecond}, err
}

// newShip starts a hub, and a cluster that joined it without a connection.
func newShip(t *testing.T) *ship {
	t.Helper()
	s := &ship{dir: t.TempDir()}
	s.road = &road{ship: s}
	started := make(chan *rest.Config, 1)
	go func() {
		defer close(started)
		started <- controlplane.ForTest(t)
	}()
	s.grid = newGrid(t)
	s.local = <-started
	if t.Failed() {
		t.FailNow()
	}
	l, err := ledger.Open(s.kube, hub.DefaultNamespace)
	s.must(err)
	s.hub = carry.Hub{Client: s.newClient(), Ledger: l, Now: time.Now}
	for _, name := range []string{"ship", "oslo"} {
		key, err := l.Key(t.Context())
		s.must(err)
		public, err := key.Public()
		s.must(err)
		text, err := join.Hub(t.Context(), s.kube, join.Cluster{Name: name, HubKey: &public, Annotations: map[string]string{inventory.Carried: "true"}})
		s.must(err)
		s.must(os.WriteFile(s.file(name+".kubeconfig"), text, 0o600))
	}
	s.must(controlplane.WriteKubeconfig(s.file("local.kubeconfig"), s.local))
	s.clusters["ship"], err = dynamic.NewForConfig(s.local)
	s.must(err)
	return s
}

func (s *ship) file(name string) string { return filepath.Join(s.dir, name) }

// apply applies a parcel, or only looks.
func (s *ship) apply(parcel string, plan bool) (agent.Applied, error) {
	s.Helper()
	text, err := os.ReadFile(s.file("ship.kubeconfig"))
	s.must(err)
	c, err := carriedBy(text)
	s.must(err)
	c.Local, c.Content, c.Report, c.Images = s.local, s.file("content"), s.file("ship.report"), s.road
	c.RemoveTime = 5 * time.Second
	return agent.Apply(s.Context(), c, parcel, plan)
}

// state has the versions of all objects of the ship that an apply may change, and its content.
func (s *ship) state() map[string]string {
	s.Helper()
	all := make(map[string]string)
	for _, r := range []string{"v1/configmaps", "v1/secrets", "v1/namespaces", "apps/v1/deployments", "apiextensions.k8s.io/v1/customresourcedefinitions", "work.open-cluster-management.io/v1/appliedmanifestworks"} {
		parts := strings.Split(r, "/")
		resource := ocm.WorkVersion.WithResource(parts[len(parts)-1])
		resource.Group, resource.Version = strings.Join(parts[:len(parts)-2], "/"), parts[len(parts)-2]
		list, err := s.clusters["ship"].Resource(resource).List(s.Context(), metav1.ListOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		s.must(err)
		for _, o := range list.Items {
			if !strings.HasPrefix(o.GetNamespace(), "kube-") {
				all[r+"/"+o.GetNamespace()+"/"+o.GetName()] = o.GetResourceVersion()
			}
		}
	}
	_ = filepath.WalkDir(s.file("content"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			text, err := os.ReadFile(path)
			s.must(err)
			all[path] = fmt.Sprintf("%x", sha256.Sum256(text))
		}
		return nil
	})
	return all
}

// refuses checks that an apply is refused and changes nothing.
func (s *ship) refuses(what, parcel string, want seal.Reason) {
	s.Helper()
	before := s.state()
	_, err := s.apply(parcel, false)
	var r *seal.Refusal
	if err == nil || want != "" && (!errors.As(err, &r) || r.Reason != want) {
		s.Errorf("%s: %v, want %s", what, err, want)
	}
	if diff := cmp.Diff(before, s.state()); diff != "" {
		s.Errorf("%s was refused and changed something:\n%s", what, diff)
	}
}

// pack packs a parcel.
func (s *ship) pack(cluster, out, since string) carry.Packed {
	s.Helper()
	from, err := store.Open(s.file("store"))
	s.must(err)
	p := carry.Pack{Cluster: cluster, Out: s.file(out), Store: &packages.Source{Store: from}}
	if since != "" {
		p.Since, err = os.ReadFile(s.file(since))
		s.must(err)
	}
	packed, err := s.hub.Pack(s.Context(), p)
	s.must(err)
	return packed
}

func (s *ship) take(report string) error {
	s.Helper()
	text, err := os.ReadFile(s.file(report))
	s.must(err)
	_, err = s.hub.Take(s.Context(), text, false)
	return err
}

// addPackage puts a package with an image of some layers into the store.
func (s *ship) addPackage(version string, layers ...[]byte) {
	s.Helper()
	s.writePackage(version, bundle.WriteOptions{}, layers...)
}

func (s *ship) writePackage(version string, o bundle.WriteOptions, layers ...[]byte) {
	s.Helper()
	dir := bundle.AddOnDir("hello", version)
	p := bundle.Package{Name: "hello", Version: version, Platforms: []string{"linux/amd64"}, Contents: bundle.Contents{Images: []bundle.Image{{
		ID: version, Ref: "example.com/hello:" + version, Digest: "sha256:" + strings.Repeat(version, 64), Platforms: map[string]string{"linux/amd64": "sha256:" + strings.Repeat(version, 64)},
	}}}}
	for _, layer := range layers {
		p.Files = append(p.Files, bundle.BytesFile(fmt.Sprintf("%s/images/blobs/sha256/%x", dir, sha256.Sum256(layer)), 0o644, layer))
	}
	s.must(os.MkdirAll(s.file("store"), 0o755))
	f, err := os.Create(s.file("store/hello-" + version + ".tar.gz"))
	s.must(err)
	_, err = bundle.WritePackage(s.Context(), f, p, o)
	s.must(errors.Join(err, f.Close()))
}

// randomBytes cannot be compressed.
func randomBytes(seed uint64, size int) []byte {
	r := rand.New(rand.NewPCG(seed, 0))
	data := make([]byte, size)
	for i := range data {
		data[i] = byte(r.Uint32())
	}
	return data
}

// carried is the add-on hello without hooks.
func carried(t *testing.T) string {
	parts := strings.Split(hello, "      - apiVersion: batch/v1")
	if len(parts) != 2 {
		t.Fatal("hello has no Job")
	}
	return strings.Replace(parts[0], "matchLabels: {name: rome}", "matchLabels: {name: nobody}", 1) + "---" + addOn
}

// waitForWork waits until the hub has a signed work with a version.
func (s *ship) waitForWork(cluster, version string) {
	s.Helper()
	s.eventually("the work of "+cluster, func() string {
		var w ocm.ManifestWork
		if err := s.client.Get(s.Context(), types.NamespacedName{Namespace: cluster, Name: "addon-hello-deploy-0"}, &w); err != nil {
			return err.Error()
		}
		if text := fmt.Sprint(w.Spec.Workload.Manifests); !strings.Contains(text, "example.com/hello:"+version) || w.Annotations[seal.Annotation] == "" {
			return text
		}
		return ""
	})
}

// waits checks which works of the ship wait for a parcel or its report.
func (s *ship) waits(works ...string) {
	s.Helper()
	list, err := view.View{Reader: inventory.Reader{Reader: s.client}}.Carried(s.Context())
	s.must(err)
	if len(list) != 2 || list[1].Name != "ship" || list[1].Works != 1 || !slices.Equal(list[1].Waiting, works) || len(list[1].Removed)+len(list[1].Failed) > 0 {
		s.Errorf("%+v", list)
	}
}
