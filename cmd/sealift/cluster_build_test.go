package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/sealift/sealift/builder"
	"github.com/sealift/sealift/builder/fetch"
	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/internal/testing/controlplane"
	"github.com/sealift/sealift/internal/testing/objects"
	"github.com/sealift/sealift/internal/testing/short"
	"github.com/sealift/sealift/store"
	"github.com/sealift/sealift/store/release"
)

// buildCluster is a cluster whose pods are processes of this program, a bucket, and the web server that Manifests name.
type buildCluster struct {
	*testing.T
	dir      string
	cache    string // of the command that starts builds
	kubelet  *controlplane.Kubelet
	location string       // of the store
	common   atomic.Int64 // requests for the file that all add-ons name
	pods     atomic.Int64

	reached, killed chan struct{}
	reach, kill     sync.Once
}

func newFarm(t *testing.T) *buildCluster {
	t.Helper()
	short.Skip(t, "a kube-apiserver")
	f := &buildCluster{T: t, dir: t.TempDir(), cache: t.TempDir(), location: objects.Start(t).URL("farm"), reached: make(chan struct{}), killed: make(chan struct{})}
	upstream := httptest.NewServer(f)
	t.Cleanup(upstream.Close)
	f.write("sealift.yaml", "mirrors: {https://files.example.com/: "+upstream.URL+"/}\n")
	plane := controlplane.StartForTest(t, controlplane.Options{Jobs: true})
	client, err := kubernetes.NewForConfig(plane.Config())
	if err == nil {
		err = errors.Join(controlplane.WriteKubeconfig(filepath.Join(f.dir, "kubeconfig"), plane.Config()), controlplane.MakeNode(t.Context(), client, "node-1", nil, 3))
	}
	if err != nil {
		t.Fatal(err)
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "key"}, Data: map[string][]byte{}}
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"} {
		secret.Data[name] = []byte(os.Getenv(name))
	}
	if _, err := client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "builds"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.CoreV1().Secrets("builds").Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	f.kubelet = &controlplane.Kubelet{Client: client, Namespace: "builds", Run: f.pod}
	f.kubelet.Start(t)
	return f
}

func (f *buildCluster) write(name, text string) {
	f.Helper()
	name = filepath.Join(f.dir, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o600)); err != nil {
		f.Fatal(err)
	}
}

// ServeHTTP is the web server. The first request for the file of the second add-on waits until its pod is killed.
func (f *buildCluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/common":
		f.common.Add(1)
	case "/own-1":
		if f.pods.Load() > 0 {
			f.reach.Do(func() {
				close(f.reached)
				<-f.killed
			})
		}
	}
	fmt.Fprint(w, strings.Repeat("content of "+r.URL.Path+"\n", 1000))
}

// pod runs the command of a pod's first container, with its environment and files. That of the second add-on is killed once.
func (f *buildCluster) pod(ctx context.Context, pod *corev1.Pod) error {
	f.pods.Add(1)
	home, err := os.MkdirTemp(f.dir, "pod-*")
	if err != nil {
		return err
	}
	cmd, err := f.kubelet.Command(ctx, pod, home)
	if err != nil {
		return err
	}
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	defer close(ended)
	if pod.Annotations[batchv1.JobCompletionIndexAnnotation] == "1" {
		go func() {
			select {
			case <-f.killed:
			case <-ended:
			case <-f.reached:
				f.kill.Do(func() {
					_ = cmd.Process.Kill()
					close(f.killed)
				})
			}
		}()
	}
	err = cmd.Wait()
	if said.Len() > 0 {
		f.Logf("pod %s: %s", pod.Name, said.String())
	}
	return err
}

// sealift runs a command and returns the packages that it prints.
func (f *buildCluster) sealift(args ...string) (list []builder.Result, said string) {
	f.Helper()
	code, out, errOut := command(f.T, append(args, "--config", filepath.Join(f.dir, "sealift.yaml"))...)
	if code != app.ExitDone {
		f.Fatalf("%s: exit %d\n%s%s", args[0], code, out, errOut)
	}
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		f.Fatalf("%v: %s", err, out)
	}
	return list, errOut
}

// TestClusterBuildMakesSamePackages builds add-ons here and in pods. One pod is killed in the middle, and a shared file is damaged.
func TestClusterBuildMakesSamePackages(t *testing.T) {
	f := newFarm(t)
	f.write("files/notes", "of the repository\n")
	f.write("addons/demo-0/template/install.sh", "function demo() { :; }\n")
	var dirs []string
	for i := range 4 {
		name := fmt.Sprintf("addons/demo-%d/1.0", i)
		f.write(name+"/Manifest", fmt.Sprintf("asset common https://files.example.com/common\nasset own https://files.example.com/own-%d\nasset notes ../../../files/notes\n", i))
		if i > 0 {
			f.write(name+"/install.sh", "function demo() { :; }\n")
		} else if err := os.Symlink("../template/install.sh", filepath.Join(f.dir, name, "install.sh")); err != nil {
			t.Fatal(err)
		}
		dirs = append(dirs, filepath.Join(f.dir, name))
	}
	on := func(dirs []string, more ...string) []string {
		return append(append([]string{"build", "--on", "kubernetes", "--store", f.location, "--image", "example.org/sealift:1", "--namespace", "builds", "--secret", "key", "--cache", f.cache,
			"--kubeconfig", filepath.Join(f.dir, "kubeconfig"), "-o", "json"}, dirs...), more...)
	}
	if code, _, errOut := command(t, append(on(dirs), "--config", filepath.Join(f.dir, "sealift.yaml"))...); code != app.ExitFailed || !strings.Contains(errOut, "Manifest.lock") {
		t.Errorf("without locks: exit %d\n%s", code, errOut)
	}
	f.sealift(append([]string{"lock", "--cache", t.TempDir(), "-o", "json"}, dirs...)...)
	local, _ := f.sealift(append([]string{"build", "--locked", "--cache", t.TempDir(), "--out", t.TempDir(), "-o", "json"}, dirs...)...)
	s, err := store.Opener{Write: true}.Open(f.location)
	if err != nil {
		t.Fatal(err)
	}
	common := store.Bytes([]byte(strings.Repeat("content of /common\n", 1000)))
	if _, err := s.Put(t.Context(), fetch.SharedDir+common.SHA256, store.Bytes([]byte("damaged"))); err != nil {
		t.Fatal(err)
	}
	built, said := f.sealift(on(dirs)...)
	if !strings.Contains(said, "builds 4 packages") {
		t.Errorf("it said %s", said)
	}
	select {
	case <-f.killed:
	default:
		t.Error("no pod was killed")
	}
	index, err := release.In(s, "").Index(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range local {
		if got := built[i]; got.SHA256 != want.SHA256 || got.Name != want.Name || got.Size != want.Size || got.UpToDate {
			t.Errorf("%s is %+v, want %+v", dirs[i], got, want)
		}
		if listed, ok := index.Find(want.Name, want.Version); !ok || listed.SHA256 != want.SHA256 {
			t.Errorf("the index has %+v of %s", listed, want.Name)
		}
	}
	if pods := f.pods.Load(); pods != 5 {
		t.Errorf("%d pods built 4 packages, one of them twice", pods)
	}
	again, _ := f.sealift(on(dirs)...)
	if again[0].SHA256 != local[0].SHA256 || !again[3].UpToDate || f.pods.Load() != 5 {
		t.Errorf("the second build took %d pods: %+v", f.pods.Load()-5, again)
	}
	f.write("addons/demo-3/1.0/install.sh", "function demo() { true; }\n")
	before := f.common.Load()
	changed, _ := f.sealift(on(dirs)...)
	if changed[3].UpToDate || changed[3].SHA256 == local[3].SHA256 || !changed[2].UpToDate || f.pods.Load() != 6 || f.common.Load() != before {
		t.Errorf("after a change: %d pods, %d requests for what the bucket has: %+v", f.pods.Load()-5, f.common.Load()-before, changed)
	}
}

func TestClusterBuildRefusesUnsupportedFlags(t *testing.T) {
	for want, args := range map[string][]string{
		"--on needs --store":         {"--image", "i"},
		"--on needs --image":         {"--store", "s3://packages"},
		"--store must be s3://":      {"--store", t.TempDir(), "--image", "i"},
		"leave out --out":            {"--store", "s3://packages", "--image", "i", "--out", "dist"},
		"run it for each --platform": {"--store", "s3://packages", "--image", "i", "--per-platform"},
		"leave out --key":            {"--store", "s3://packages", "--image", "i", "--key", "release.key"},
		"--memory much":              {"--store", "s3://packages", "--image", "i", "--memory", "much"},
		"--parallelism must not":     {"--store", "s3://packages", "--image", "i", "--parallelism", "-1"},
	} {
		code, _, errOut := command(t, append([]string{"build", t.TempDir(), "--on", "kubernetes"}, args...)...)
		if code != app.ExitUsage || !strings.Contains(errOut, want) {
			t.Errorf("%v: exit %d, %s", args, code, errOut)
		}
	}
}
