package main

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sealift/sealift/cli/app"
)

var deleteNow = metav1.DeleteOptions{}

// process prepares this program as a separate process, under a name.
func (c *channelCluster) process(name string, args ...string) *exec.Cmd {
	c.Helper()
	self, err := os.Executable()
	if err != nil {
		c.Fatal(err)
	}
	cmd := exec.CommandContext(c.Context(), self)
	cmd.Args = append([]string{name}, args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.kubeconfig, "HOME="+c.dir)
	return cmd
}

func testChannelsAlias(c *channelCluster) {
	c.write("a.yaml", configMap("aliased", "1"))
	file := c.index("addons.yaml", "{name: aliased, version: 1.0.0, manifest: a.yaml}")
	use := func(want int, args ...string) (out, errOut string) {
		c.Helper()
		var o, e bytes.Buffer
		cmd := c.process("channels", args...)
		cmd.Stdout, cmd.Stderr = &o, &e
		_ = cmd.Run() // the exit code says it
		if got := cmd.ProcessState.ExitCode(); got != want {
			c.Errorf("channels %v: exit code %d, want %d\n%s%s", args, got, want, &o, &e)
		}
		return o.String(), e.String()
	}
	if out, _ := use(0, "get", "addons"); out != "\nNo managed addons found\n" {
		c.Error(out)
	}
	if out, _ := use(0, "apply", "channel", "-f", file, "--yes", "-v=4", "--logtostderr", "--node-name", "n"); !strings.Contains(out, "Updated \"aliased\" to 1.0.0\n") {
		c.Error(out)
	}
	if out, _ := use(0, "get", "addon"); !strings.HasPrefix(out, "NAMESPACE") || !strings.Contains(out, "aliased") {
		c.Error(out)
	}
	if out, errOut := use(0, "get", "addons", "--v=4", "--config", "/nowhere"); !strings.Contains(out, "aliased") || !strings.Contains(errOut, "--config is ignored") {
		c.Errorf("%s%s", out, errOut)
	}
	use(2, "nonsense")
	use(2, "get", "nonsense")
	if _, errOut := use(1, "apply", "channel"); errOut != "\nat least one channel URL is required; name it, or a file with -f\n" {
		c.Errorf("%q", errOut)
	}
	c.write(".channels.yaml", fmt.Sprintf("filename: [%s]\nyes: true\n", file))
	if out, _ := use(0, "apply", "channel"); out != "No update required\n" {
		c.Error(out)
	}
	c.write(".channels.yaml", "yes: perhaps\n")
	if _, errOut := use(1, "apply", "channel", "-f", file); !strings.Contains(errOut, "perhaps") {
		c.Error(errOut)
	}
	c.clear()
}

// manyAddons writes a channel of add-ons that have some objects each.
func (c *channelCluster) manyAddons(prefix string, count int, version string) string {
	c.Helper()
	var entries []string
	for i := range count {
		name := fmt.Sprintf("%s-%d", prefix, i)
		text := ""
		for j := range 4 {
			text += configMap(fmt.Sprintf("%s-%d", name, j), version) + "---\n"
		}
		c.write(name+"-"+version+".yaml", text)
		entries = append(entries, fmt.Sprintf("{name: %s, version: %s, manifest: %s-%s.yaml}", name, version, name, version))
	}
	return c.index(prefix+"-"+version+"-addons.yaml", entries...)
}

// settled fails unless every add-on of manyAddons is at a version, in its objects and in its record.
func (c *channelCluster) settled(prefix string, count int, version string) {
	c.Helper()
	for i := range count {
		name := fmt.Sprintf("%s-%d", prefix, i)
		if !strings.Contains(c.recorded("kube-system", name), fmt.Sprintf(`"version":%q`, version)) {
			c.Errorf("%s is recorded as %s, want %s", name, c.recorded("kube-system", name), version)
		}
		for j := range 4 {
			if got := c.value(fmt.Sprintf("%s-%d", name, j)); got != version {
				c.Errorf("object %d of %s is of version %q, want %s", j, name, got, version)
			}
		}
	}
}

// testChannelKills kills ten updates where they stand, and lets each be finished by the same command.
func testChannelKills(c *channelCluster) {
	const count = 6
	apply := func(file string) *exec.Cmd { return c.process("sealift", "channel", "apply", "-f", file, "--yes") }
	start := time.Now()
	if out, err := apply(c.manyAddons("killed", count, "1.0.0")).CombinedOutput(); err != nil {
		c.Fatalf("%v: %s", err, out)
	}
	whole := time.Since(start)
	for i := range 10 {
		version := fmt.Sprintf("1.%d.0", i+1)
		file := c.manyAddons("killed", count, version)
		victim := apply(file)
		if err := victim.Start(); err != nil {
			c.Fatal(err)
		}
		time.Sleep(time.Duration(rand.Int64N(int64(whole)))) // the test varies the moment of the kill
		if err := victim.Process.Signal(syscall.SIGKILL); err != nil && !strings.Contains(err.Error(), "finished") {
			c.Fatal(err)
		}
		_ = victim.Wait() // killed
		if out, err := apply(file).CombinedOutput(); err != nil {
			c.Fatalf("after kill %d: %v: %s", i+1, err, out)
		}
		c.settled("killed", count, version)
		if out := c.must("apply", "-f", file, "--yes"); out != "No update required\n" {
			c.Errorf("after kill %d: %s", i+1, out)
		}
	}
	c.clear()
}

// testChannelTwoAtOnce runs an older and a newer version side by side. Whichever starts first, the newer one stays, complete.
func testChannelTwoAtOnce(c *channelCluster) {
	const count = 4
	for round := range 3 {
		older := c.manyAddons("both", count, fmt.Sprintf("1.%d.0", 2*round))
		newer := c.manyAddons("both", count, fmt.Sprintf("1.%d.0", 2*round+1))
		var meet sync.WaitGroup
		for _, file := range []string{older, newer, older, newer} {
			meet.Go(func() {
				if out, err := c.process("sealift", "channel", "apply", "-f", file, "--yes").CombinedOutput(); err != nil {
					c.Errorf("%v: %s", err, out)
				}
			})
		}
		meet.Wait()
		c.settled("both", count, fmt.Sprintf("1.%d.0", 2*round+1))
	}
	c.clear()
}

// testChannelLoop follows a loop from a channel that does not exist yet to its end by a signal.
func testChannelLoop(c *channelCluster) {
	c.write("a.yaml", configMap("looped", "1"))
	file := filepath.Join(c.dir, "addons.yaml")
	loop := c.process("sealift", "channel", "apply", "-f", file, "--yes", "--interval", "100ms", "--listen", "127.0.0.1:0")
	var out bytes.Buffer
	errOut, err := loop.StderrPipe()
	if err != nil {
		c.Fatal(err)
	}
	loop.Stdout = &out
	if err := loop.Start(); err != nil {
		c.Fatal(err)
	}
	var url string
	if _, err := fmt.Fscanf(errOut, "serving %s\n", &url); err != nil {
		c.Fatal(err)
	}
	drained := make(chan struct{})
	go func() { _, _ = io.Copy(io.Discard, errOut); close(drained) }()
	ready := func() bool {
		req, err := http.NewRequestWithContext(c.Context(), http.MethodGet, url, nil)
		if err != nil {
			c.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			c.Fatal(err)
		}
		resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	}
	until := func(what string, reached func() bool) {
		c.Helper()
		for deadline := time.Now().Add(3 * time.Minute); !reached(); time.Sleep(50 * time.Millisecond) {
			if time.Now().After(deadline) {
				c.Fatalf("%s: not reached", what)
			}
		}
	}
	if ready() {
		c.Error("ready before a pass has succeeded")
	}
	c.index("addons.yaml", "{name: looped, version: 1.0.0, manifest: a.yaml}")
	until("ready after the first success", ready)
	if c.value("looped") != "1" {
		c.Error("ready, and nothing was applied")
	}
	code, _, busy := c.sealift("apply", "-f", file, "--interval", "1m", "--listen", strings.TrimSuffix(strings.TrimPrefix(url, "http://"), "/readyz"))
	if code != app.ExitFailed || !strings.Contains(busy, "address already in use") {
		c.Errorf("a second loop: exit code %d: %s", code, busy)
	}
	if err := os.Rename(file, file+".away"); err != nil {
		c.Fatal(err)
	}
	until("not ready after a failed pass", func() bool { return !ready() })
	if err := os.Rename(file+".away", file); err != nil {
		c.Fatal(err)
	}
	until("ready again", ready)
	if err := loop.Process.Signal(syscall.SIGTERM); err != nil {
		c.Fatal(err)
	}
	<-drained
	if err := loop.Wait(); err != nil {
		c.Errorf("ended by a signal: %v", err)
	}
	c.clear()
}

// testChannelSize logs how long a large index takes. The speed of the machine does not fail it.
func testChannelSize(c *channelCluster) {
	var entries []string
	for i := range 300 {
		entries = append(entries, fmt.Sprintf("{name: large-%d, version: 1.%d.0, manifest: a.yaml, kubernetesVersion: '>=1.20.0'}", i, i))
		c.record("kube-system", fmt.Sprintf("large-%d", i), `{"version":"1.0.0"}`)
	}
	file := c.index("addons.yaml", entries...)
	start := time.Now()
	out, err := c.process("sealift", "channel", "plan", "-f", file).CombinedOutput()
	if err != nil || strings.Count(string(out), "\n") != 301 {
		c.Errorf("%v: %s", err, out)
	}
	c.Logf("300 add-ons were planned in %s", time.Since(start))
	c.clear()
}
