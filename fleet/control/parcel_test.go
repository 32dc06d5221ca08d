package control_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/bundle/signature"
	"github.com/sealift/sealift/catalog/packages"
	"github.com/sealift/sealift/fleet/agent"
	"github.com/sealift/sealift/fleet/carry"
	"github.com/sealift/sealift/fleet/ocm"
	"github.com/sealift/sealift/fleet/parcel"
	"github.com/sealift/sealift/fleet/seal"
	"github.com/sealift/sealift/internal/child"
	"github.com/sealift/sealift/store"
)

// TestParcelAndReportTravelByUSB carries an add-on to a cluster without a connection, and its reports back.
func TestParcelAndReportTravelByUSB(t *testing.T) {
	t.Parallel()
	s := newShip(t)
	base, patch := randomBytes(1, 2<<20), randomBytes(2, 1<<20)
	s.addPackage("1", base)
	s.grid.apply(carried(t) + "---" + fmt.Sprintf(config, "1"))
	s.waitForWork("ship", "1")
	s.waitForWork("oslo", "1")
	s.waits("addon-hello-deploy-0")

	t.Log("a plan of the parcel changes nothing")
	before := s.rest()
	from, err := store.Open(s.file("store"))
	s.must(err)
	planned, err := s.hub.Pack(t.Context(), carry.Pack{Cluster: "ship", Out: s.file("planned"), Store: &packages.Source{Store: from}, Plan: true})
	s.must(err)
	if _, err := os.Stat(s.file("planned")); !errors.Is(err, fs.ErrNotExist) || len(planned.Works) != 1 || len(planned.Packages) != 1 {
		t.Errorf("planned %+v: %v", planned, err)
	}
	if diff := cmp.Diff(before, s.versions()); diff != "" {
		t.Errorf("a plan changed something:\n%s", diff)
	}
	s.signedPackagesOnly()
	first := s.pack("ship", "first", "")
	s.pack("oslo", "foreign", "")
	s.damaged("first")
	s.refuses("a parcel of another cluster", s.file("foreign"), seal.OtherCluster)

	t.Log("a plan of the apply changes nothing, a killed apply goes on")
	clean := s.state()
	if out, err := s.apply(s.file("first"), true); err != nil || out.Parcel != first.Sequence || len(out.Works) != 1 {
		t.Errorf("%+v, %v", out, err)
	}
	if diff := cmp.Diff(clean, s.state()); diff != "" {
		t.Errorf("a plan changed something:\n%s", diff)
	}
	s.road.closed = "the nodes cannot get images"
	s.refuses("a parcel whose images reach no node", s.file("first"), "")
	s.road.closed = ""
	s.oneAtATime("first")
	s.killApply("first")
	if out, err := s.apply("", false); err == nil {
		t.Errorf("the report of a killed apply says that all is applied: %+v", out)
	}
	s.road.brought, s.road.cut = nil, true
	if out, err := s.apply(s.file("first"), false); err == nil || s.image("ship") != "" && s.road.brought[0] == "example.com/hello:1 before " {
		t.Errorf("a work was applied without its images: %+v, %v", out, err)
	}
	out, err := s.apply(s.file("first"), false)
	if err != nil || len(out.Waiting) != 1 || s.image("ship") != "example.com/hello:1" {
		t.Fatalf("%+v, %v: %s", out, err, s.image("ship"))
	}
	s.refuses("a replay", s.file("first"), seal.Older)

	t.Log("the report says that it is not rolled out, a later one that it is")
	s.mayTakeOnce("ship.report")
	s.eventually("the hub knows", func() string { return s.has("ship", "hello", "Progressing", "True/Progressing") })
	s.eventually("the pods run", func() string { return s.ready("ship", "default", "hello", 1) })
	if _, err := s.apply("", false); err != nil {
		t.Fatal(err)
	}
	s.mayTakeOnce("ship.report")
	s.eventually("it is complete", func() string { return s.has("ship", "hello", "Progressing", "False/Completed") })
	s.eventually("it is healthy", func() string { return s.has("ship", "hello", "Available", "True/ProbeAvailable") })
	s.waits()

	t.Log("a second parcel brings only what is new")
	s.addPackage("2", base, patch)
	s.grid.apply(fmt.Sprintf(config, "2"))
	s.waitForWork("ship", "2")
	s.waits("addon-hello-deploy-0")
	whole := s.pack("ship", "whole", "")
	second := s.pack("ship", "second", "ship.report")
	t.Logf("%d bytes instead of %d; the new layer has %d", second.Bytes, whole.Bytes, len(patch))
	if second.Left != int64(len(base)) || second.Bytes > int64(float64(len(patch))*1.02) {
		t.Errorf("%+v", second)
	}
	s.road.cut = true
	if _, err := s.apply(s.file("second"), false); err == nil || !strings.Contains(err.Error(), "run the same command again") {
		t.Errorf("the way to the nodes is cut: %v", err)
	}
	out, err = s.apply(s.file("second"), false)
	if err != nil || s.image("ship") != "example.com/hello:2" || out.Had != int64(len(base)) {
		t.Fatalf("%+v, %v", out, err)
	}
	if got := s.road.brought[len(s.road.brought)-1]; got != "example.com/hello:2 before example.com/hello:1" {
		t.Errorf("the nodes got %q", s.road.brought)
	}
	s.refuses("an older parcel", s.file("whole"), seal.Older)
	s.refuses("the first parcel", s.file("first"), seal.Older)
	s.complete()
	s.removal()
}

// signedPackagesOnly packs with keys that have, and have not, signed the packages of the store.
func (s *ship) signedPackagesOnly() {
	s.Helper()
	vendor, err := signature.Generate()
	s.must(err)
	somebody, err := signature.Generate()
	s.must(err)
	from, err := store.Open(s.file("store"))
	s.must(err)
	unsigned, err := os.ReadFile(s.file("store/hello-1.tar.gz"))
	s.must(err)
	for _, row := range []struct {
		signed, demanded *signature.Key
		want             string
	}{
		{nil, vendor, "package hello-1.tar.gz: "}, {somebody, vendor, "package hello-1.tar.gz: "}, {vendor, vendor, ""},
	} {
		s.writePackage("1", bundle.WriteOptions{Key: row.signed}, randomBytes(1, 2<<20))
		public, err := row.demanded.Public()
		s.must(err)
		p := carry.Pack{Cluster: "ship", Out: s.file("signed"), Store: &packages.Source{Store: from, Signers: []signature.PublicKey{public}}, Plan: true}
		packed, err := s.hub.Pack(s.Context(), p)
		if row.want == "" && (err != nil || len(packed.Packages) != 1) || row.want != "" && (err == nil || !strings.Contains(err.Error(), row.want) || !strings.Contains(err.Error(), "--require-signed")) {
			s.Errorf("%+v, %v, want %q", packed, err, row.want)
		}
	}
	s.must(os.WriteFile(s.file("store/hello-1.tar.gz"), unsigned, 0o644))
}

// complete checks that the content is a complete bundle.
func (s *ship) complete() {
	s.Helper()
	a, err := bundle.Open(s.file("content/current"))
	s.must(err)
	if err := errors.Join(a.Verify(s.Context()), a.Close()); err != nil {
		s.Errorf("the content of the cluster: %v", err)
	}
}

// damaged flips 20 bytes of a parcel, one by one.
func (s *ship) damaged(parcel string) {
	s.Helper()
	data, err := os.ReadFile(s.file(parcel))
	s.must(err)
	r := rand.New(rand.NewPCG(3, 0))
	for i := range 20 {
		at := i * 97 // the beginning has the index and its signature
		if i >= 10 {
			at = r.IntN(len(data))
		}
		broken := bytes.Clone(data)
		broken[at] ^= 0x10
		s.must(os.WriteFile(s.file("broken"), broken, 0o600))
		if i%10 == 0 { // all objects are compared twice, the error each time
			s.refuses(fmt.Sprintf("a parcel whose byte %d is flipped", at), s.file("broken"), "")
		} else if _, err := s.apply(s.file("broken"), false); err == nil {
			s.Errorf("a parcel whose byte %d is flipped was applied", at)
		}
	}
	if _, err := os.Stat(s.file("content")); !errors.Is(err, fs.ErrNotExist) || s.image("ship") != "" {
		s.Errorf("damaged parcels left something: %v", err)
	}
}

// oneAtATime applies a parcel while another process uses the content folder.
func (s *ship) oneAtATime(parcel string) {
	s.Helper()
	lock, err := os.OpenFile(s.file("content.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	s.must(err)
	s.must(syscall.Flock(int(lock.Fd()), syscall.LOCK_EX))
	for _, file := range []string{s.file(parcel), ""} {
		if out, err := s.apply(file, false); err == nil || !strings.Contains(err.Error(), "another 'sealift fleet apply' works with") {
			s.Errorf("%q: %+v, %v", file, out, err)
		}
	}
	s.must(lock.Close())
}

// killApply kills an apply once it has begun to change the cluster.
func (s *ship) killApply(parcel string) {
	s.Helper()
	in, err := json.Marshal(arguments{s.file("ship.kubeconfig"), s.file("local.kubeconfig"), s.file(parcel), s.file("content"), s.file("killed.report")})
	s.must(err)
	self, err := os.Executable()
	s.must(err)
	cmd := exec.CommandContext(s.Context(), self)
	cmd.Env = append(os.Environ(), carriedVariable+"="+string(in))
	var log bytes.Buffer
	cmd.Stderr = &log
	wait, err := child.Start(cmd)
	s.must(err)
	defer func() {
		_ = cmd.Process.Kill()
		_ = wait()
		if _, err := os.Stat(s.file("killed.report")); err == nil {
			s.Errorf("the apply was complete before it was killed\n%s", &log)
		}
	}()
	s.eventually("it has begun", func() string {
		list, err := s.clusters["ship"].Resource(configMaps).Namespace(agent.Namespace).List(s.Context(), metav1.ListOptions{})
		if err != nil {
			return err.Error()
		}
		for _, o := range list.Items {
			if strings.HasPrefix(o.GetName(), "sealift-fleet-sequence-") {
				return ""
			}
		}
		return "nothing is remembered yet"
	})
}

// mayTakeOnce reads a report, and finds that nobody can change it or read it again.
func (s *ship) mayTakeOnce(report string) {
	s.Helper()
	good, err := os.ReadFile(s.file(report))
	s.must(err)
	for _, broken := range [][]byte{
		bytes.Replace(good, []byte(`"version":"v1`), []byte(`"version":"v2`), 1), bytes.Replace(good, []byte(`"number":`), []byte(`"number":1`), 1), good[:len(good)/2],
	} {
		if _, err := s.hub.Take(s.Context(), broken, false); err == nil || bytes.Equal(broken, good) {
			s.Errorf("a changed report was taken, or it is not changed:\n%.300s", broken)
		}
	}
	planned, err := s.hub.Take(s.Context(), good, true)
	if err != nil || len(planned.Works)+len(planned.Behind)+len(planned.Gone) == 0 {
		s.Errorf("%+v, %v", planned, err)
	}
	s.must(s.take(report))
	before := s.rest()
	if err := s.take(report); err == nil {
		s.Error("a report was taken twice")
	}
	if diff := cmp.Diff(before, s.versions()); diff != "" {
		s.Errorf("a report that was refused changed something:\n%s", diff)
	}
}

// rest waits until the hub writes nothing, and returns the versions of its objects: it writes the status of add-ons after their
// works.
func (s *ship) rest() (versions map[string]string) {
	s.Helper()
	s.eventually("the hub has come to rest", func() string {
		before := s.versions()
		time.Sleep(3 * time.Second)
		versions = s.versions()
		return cmp.Diff(before, versions)
	})
	return versions
}

// stuck removes the add-on by parcel while an object has a permanent finalizer.
func (s *ship) stuck(key signature.PublicKey) {
	s.Helper()
	finalizer := func(list string) {
		s.Helper()
		_, err := s.clusters["ship"].Resource(deployments).Namespace("default").Patch(s.Context(), "hello", types.MergePatchType, []byte(`{"metadata":{"finalizers":`+list+`}}`), metav1.PatchOptions{})
		s.must(err)
	}
	finalizer(`["example.org/stuck"]`)
	out, err := s.apply(s.file("last"), false)
	if name := "addon-hello-deploy-0"; err != nil || !strings.Contains(out.Stuck[name], "hello") || slices.Contains(out.Removed, name) || out.Report == "" {
		s.Errorf("%+v, %v", out, err)
	}
	notes, _ := filepath.Glob(s.file("content/left/*.json"))
	if len(notes) != 1 {
		s.Fatalf("noted are %v", notes)
	}
	text, err := os.ReadFile(notes[0])
	s.must(err)
	noted, err := parcel.ReadWork(text)
	s.must(err)
	if _, _, _, err := (seal.Policy{Cluster: "ship", Keys: []signature.PublicKey{key}}).Origin(noted.Name, noted.Seal, noted.Spec); err != nil {
		s.Errorf("a note is not what the hub signed: %v", err)
	}
	finalizer("null")
}

// removal removes the add-on by parcel.
func (s *ship) removal() {
	s.Helper()
	s.mayTakeOnce("ship.report")
	cma := &unstructured.Unstructured{Object: map[string]any{"apiVersion": ocm.AddOnVersion.String(), "kind": "ClusterManagementAddOn", "metadata": map[string]any{"name": "hello"}}}
	s.must(s.client.Delete(s.Context(), cma))
	work := types.NamespacedName{Namespace: "ship", Name: "addon-hello-deploy-0"}
	s.eventually("the work is deleted", func() string {
		var w ocm.ManifestWork
		if err := s.client.Get(s.Context(), work, &w); err != nil {
			return err.Error()
		}
		if signed, err := seal.Read(w.Annotations[seal.Annotation]); err != nil || !signed.Deleted {
			return fmt.Sprint("its deletion is not signed: ", err)
		}
		return ""
	})
	s.pack("ship", "last", "ship.report")
	key, err := s.hub.Ledger.Key(s.Context())
	s.must(err)
	public, err := key.Public()
	s.must(err)
	a, p, err := parcel.ReadArchive(s.file("last"), []signature.PublicKey{public})
	s.must(err)
	s.must(a.Close())
	for _, one := range p.Works {
		if signed, err := seal.Read(one.Seal); err != nil || one.Deleted && (signed.Deleted || signed.Sequence != 1) {
			s.Errorf("an agent of an older version cannot read the seal of %s, or the seal brings it back: %+v, %v", one.Name, signed, err)
		}
	}
	s.stuck(public)
	if _, err := s.apply(s.file("last"), false); err != nil {
		s.Fatal(err)
	}
	if s.image("ship") != "" || s.exists("ship", configMaps, "default", "stays") == nil {
		s.Error("the Deployment is there, or the orphan is gone")
	}
	s.mayTakeOnce("ship.report")
	s.eventually("the work is gone", func() string {
		if err := s.client.Get(s.Context(), work, &ocm.ManifestWork{}); !apierrors.IsNotFound(err) {
			return fmt.Sprint("it is there: ", err)
		}
		return ""
	})
}
