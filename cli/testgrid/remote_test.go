package testgrid_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/internal/testing/controlplane"
	"github.com/sealift/sealift/internal/testing/fixture"
	"github.com/sealift/sealift/internal/testing/objects"
	"github.com/sealift/sealift/internal/testing/short"
	"github.com/sealift/sealift/store"
	"github.com/sealift/sealift/store/release"
	"github.com/sealift/sealift/testgrid/report"
)

// TestMain lets pods and coordinators run this binary as the command sealift.
func TestMain(m *testing.M) {
	if os.Args[0] == "sealift" {
		app.Main(func(ctx context.Context, args []string, in io.Reader, out, errOut io.Writer) int {
			return app.Run(ctx, "sealift-testgrid", root, args[1:], in, out, errOut) // behind "testgrid"
		})
	}
	os.Exit(m.Run())
}

// cluster is a cluster whose pods are processes of this program, and a bucket. Machines and bundles are those of package fixture.
type cluster struct {
	*testing.T
	dir      string
	location string // of the store
	kubelet  *controlplane.Kubelet
	pods     atomic.Int64
	kill     sync.Once
	killed   chan struct{} // closed when the first pod of the test "slow" was killed
}

// gridTests has a test for each end. The test "slow" waits for a file.
const gridTests = `
- name: good
  installerSpec: KUBERNETES
  airgap: true
  numSecondaryNodes: 1
  expect: [{nodesReady: 1}]
- name: bad
  installerSpec: KUBERNETES
  postInstallScript: "echo about to fail; test -e $SHARED/mended"
- name: calls out
  airgap: true
  installerSpec: KUBERNETES
  preInstallScript: |
    echo '[{"address": "203.0.113.7", "protocol": "tcp", "port": 443, "packets": 3, "process": "curl"}]' >/root/egress
- name: no package
  installerSpec: {kubernetes: {version: none}}
- name: other systems only
  installerSpec: KUBERNETES
  unsupportedOSIDs: [plain]
- name: slow
  installerSpec: KUBERNETES
  postInstallScript: "touch $SHARED/begun; while [ ! -e $SHARED/go ]; do sleep 0.05; done"
`

func newCluster(t *testing.T) *cluster {
	t.Helper()
	short.Skip(t, "a kube-apiserver, and root for mount namespaces")
	c := &cluster{T: t, dir: t.TempDir(), location: objects.Start(t).URL("grid"), killed: make(chan struct{})}
	plane := controlplane.StartForTest(t, controlplane.Options{Jobs: true})
	client, err := kubernetes.NewForConfig(plane.Config())
	if err != nil {
		t.Fatal(err)
	}
	key := map[string][]byte{}
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"} {
		key[name] = []byte(os.Getenv(name))
	}
	_, made := client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "grid"}}, metav1.CreateOptions{})
	_, keyed := client.CoreV1().Secrets("grid").Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "key"}, Data: key}, metav1.CreateOptions{})
	if err := errors.Join(made, keyed, controlplane.MakeNode(t.Context(), client, "node-1", nil, 3), fixture.WritePrograms(c.dir), controlplane.WriteKubeconfig(c.path("kubeconfig"), plane.Config()),
		os.WriteFile(c.path("tests.yaml"), []byte(strings.ReplaceAll(gridTests, "KUBERNETES", "{kubernetes: {version: 1.36.3}}")), 0o600),
		os.WriteFile(c.path("hosts.yaml"), fmt.Appendf(nil, "systems: {plain: {command: %s}}\n", c.path("hosts")), 0o600)); err != nil {
		t.Fatal(err)
	}
	c.kubelet = &controlplane.Kubelet{Client: client, Namespace: "grid", Run: c.pod}
	c.kubelet.Start(t)
	return c
}

func (c *cluster) path(name string) string { return filepath.Join(c.dir, name) }

// pod runs a pod. One that has begun with the test "slow" is killed once, with all that it started.
func (c *cluster) pod(ctx context.Context, pod *corev1.Pod) error {
	c.pods.Add(1)
	home, err := os.MkdirTemp(c.dir, "pod-*")
	if err != nil {
		return err
	}
	cmd, err := c.kubelet.Command(ctx, pod, home)
	if err != nil {
		return err
	}
	cmd.Env = append(cmd.Env, "SEALIFT_PROGRAM="+c.path("sealift"))
	var said fixture.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() {
		for slow := false; !slow; time.Sleep(20 * time.Millisecond) {
			select {
			case <-ended:
				return
			default:
			}
			_, err := os.Stat(c.path("shared/begun"))
			slow = err == nil && strings.Contains(said.String(), "slow on plain: runs")
		}
		c.kill.Do(func() {
			_ = cmd.Process.Kill()
			close(c.killed)
		})
	}()
	err = cmd.Wait()
	close(ended)
	c.Logf("pod %s of index %s: %v\n%s", pod.Name, pod.Annotations[batchv1.JobCompletionIndexAnnotation], err, said.String())
	return err
}

// args is the command line of a run on the cluster.
func (c *cluster) args(more ...string) []string {
	return append([]string{"run", c.path("tests.yaml"), "--hosts", c.path("hosts.yaml"), "--store", c.location, "--out", c.path("report"), "-o", "json",
		"--on", "kubernetes", "--image", "example.org/sealift:1", "--namespace", "grid", "--secret", "key", "--kubeconfig", c.path("kubeconfig")}, more...)
}

// run runs the tests and returns how they ended. One at least does not pass.
func (c *cluster) run(args []string) map[string]report.Cell {
	c.Helper()
	code, out, errOut := command(c.T, args...)
	var list struct{ Cells []report.Cell }
	if err := json.Unmarshal([]byte(out), &list); err != nil || code != app.ExitFailed {
		c.Fatalf("exit %d, %v\n%s%s", code, err, errOut, out)
	}
	c.Log(errOut)
	cells := map[string]report.Cell{}
	for _, cell := range list.Cells {
		cells[cell.Test] = cell
	}
	return cells
}

// made counts the tests that took machines.
func (c *cluster) made() int {
	c.Helper()
	log, err := os.ReadFile(c.path("log"))
	if err != nil {
		c.Fatal(err)
	}
	return strings.Count(string(log), "make\n")
}

// ending is the result of a test, without times, machines and where it ran.
func ending(cell report.Cell) string {
	a := cell.Attempts[0]
	var steps []string
	for _, s := range a.Steps {
		steps = append(steps, s.Name+" "+string(s.Verdict))
	}
	first, _, _ := strings.Cut(a.Reason, "m-")
	return fmt.Sprintf("%s %q %d files %d violations %s %s", cell.Verdict, first, len(a.Files), len(a.Violations), a.Digest, steps)
}

// TestPodsRunSameTests runs tests on a cluster. The coordinator and the pod of one test are killed in the middle. The report is
// that of a run on this machine.
func TestPodsRunSameTests(t *testing.T) {
	c := newCluster(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	coordinator := exec.CommandContext(t.Context(), self)
	coordinator.Args = append([]string{"sealift", "testgrid"}, c.args()...)
	if err := coordinator.Start(); err != nil {
		t.Fatal(err)
	}
	<-c.killed
	_ = coordinator.Process.Kill()
	if err := coordinator.Wait(); err == nil {
		t.Error("the coordinator ended by itself")
	}
	if err := os.WriteFile(c.path("shared/go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	there := c.run(c.args())
	if pods, made := c.pods.Load(), c.made(); pods != 6 || made != 5 {
		t.Errorf("%d pods, and %d tests took machines: want 6 pods for 5 tests, 5 tests with machines, one of them twice", pods, made)
	}
	if left, err := filepath.Glob(c.path("machines/*")); len(left) > 0 || err != nil {
		t.Errorf("the killed pod's machines are left: %v, %v", left, err)
	}
	if log, err := os.ReadFile(filepath.Join(report.Folder{Path: c.path("report")}.Dir("bad", "plain", 1), there["bad"].Attempts[0].Steps[2].Log)); err != nil || !strings.Contains(string(log), "about to fail") {
		t.Errorf("the log of a failed step: %q, %v", log, err)
	}

	here := c.run(slices.Concat(c.args()[:6], []string{"--out", c.path("here"), "-o", "json", "--program", c.path("sealift")}))
	if len(here) != 6 || len(there) != 6 {
		t.Errorf("%d tests here, %d there", len(here), len(there))
	}
	for test, cell := range here {
		if a, b := ending(cell), ending(there[test]); a != b {
			t.Errorf("%s\nhere  %s\nthere %s", test, a, b)
		}
	}

	c.repeats()
}

// repeats runs the tests again: with nothing changed, with another package in the store, and with the failed test mended.
func (c *cluster) repeats() {
	c.Helper()
	step := func(behaviour string, pods int64, made int, bad report.Verdict, more ...string) {
		c.Helper()
		podsBefore, madeBefore := c.pods.Load(), c.made()
		cells := c.run(c.args(more...))
		if ran, took := c.pods.Load()-podsBefore, c.made()-madeBefore; ran != pods || took != made || cells["bad"].Verdict != bad {
			c.Errorf("%s: %d pods, want %d; %d tests took machines, want %d; bad: %s, want %s", behaviour, ran, pods, took, made, cells["bad"].Verdict, bad)
		}
	}
	step("nothing changed", 0, 0, report.Failed)
	s, err := store.Opener{Write: true}.Open(c.location)
	if err != nil {
		c.Fatal(err)
	}
	index, err := json.Marshal(release.Index{Format: release.Format, Packages: []release.Package{{Name: "other", Version: "1"}}})
	if err == nil {
		_, err = s.Put(c.Context(), store.ListingName, store.Bytes(index))
	}
	if err != nil {
		c.Fatal(err)
	}
	step("a package that no test has", 5, 0, report.Failed)
	if err := os.WriteFile(c.path("shared/mended"), nil, 0o600); err != nil {
		c.Fatal(err)
	}
	step("the failed tests again", 3, 2, report.Passed, "--again", "failed")
}

func TestUnsupportedClusterRunIsRefused(t *testing.T) {
	tests := write(t, "tests.yaml", "- name: x\n  installerSpec: {kubernetes: {version: 1.36.3}}\n")
	hosts := write(t, "hosts.yaml", "systems: {a: {command: /bin/true}, b: {lab: debian-12}}\n")
	for want, row := range map[string]struct {
		code int
		args []string
	}{
		"--on needs --image":                {app.ExitUsage, []string{"--store", "s3://packages"}},
		"--store must be s3://":             {app.ExitUsage, []string{"--store", t.TempDir(), "--history", "s3://results", "--image", "i"}},
		"--history must be s3://":           {app.ExitUsage, []string{"--store", "s3://packages", "--history", t.TempDir(), "--image", "i"}},
		"leave out --keep-failed":           {app.ExitUsage, []string{"--store", "s3://packages", "--image", "i", "--keep-failed"}},
		"--memory much":                     {app.ExitUsage, []string{"--store", "s3://packages", "--image", "i", "--memory", "much"}},
		"the machines of b are containers ": {app.ExitFailed, []string{"--store", "s3://packages", "--image", "i"}},
	} {
		code, _, errOut := command(t, append([]string{"run", tests, "--hosts", hosts, "--out", t.TempDir(), "--on", "kubernetes"}, row.args...)...)
		if code != row.code || !strings.Contains(errOut, want) {
			t.Errorf("%v: exit %d, %s", row.args, code, errOut)
		}
	}
}
