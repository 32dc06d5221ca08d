package airgap_test

import (
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/sealift/sealift/internal/shellword"
	"github.com/sealift/sealift/internal/testing/lab"
	"github.com/sealift/sealift/testgrid/lab/host"
	"github.com/sealift/sealift/testgrid/lab/upstream"
)

// TestHostsInstallThemselvesFromServer uses a host with a bucket and a server before it, and two hosts that have nothing but the
// addresses of that server's scripts, and curl. The Installer is composed on the server's page, and the command is the one
// shown there.
func TestHostsInstallThemselvesFromServer(t *testing.T) {
	t.Parallel()
	r := build(t, current, "debian-12")
	tools := r.tools(t)
	depot := node{lab.Host(t, host.Spec{USB: []string{r.dir(), tools}}), t}
	first := node{lab.Host(t, host.Spec{USB: []string{tools}}), t}
	worker := node{lab.Host(t, host.Spec{USB: []string{tools}}), t}
	for _, n := range []node{depot, first, worker} {
		n.must("dpkg -i /media/usb*/*.deb 2>&1")
	}
	base := depot.serves()
	shown := depot.composed(base, addOns(current))
	url, ok := strings.CutSuffix(strings.TrimPrefix(shown, "curl -fsSL "), " | sudo bash")
	if !ok || !strings.HasPrefix(url, base+"/") {
		t.Fatalf("the page shows %q", shown)
	}
	first.refuses("ip route get 1.1.1.1", 2, "unreachable")

	first.must("systemd-run --quiet --unit=first --property=KillMode=control-group bash -c " + shellword.Quote(shown))
	first.must("for i in $(seq 1800); do [ ! -e /etc/kubernetes/manifests/etcd.yaml ] || exit 0; sleep 0.5; done; journalctl -u first; exit 1")
	first.must("systemctl kill --signal=KILL first; sleep 1; sealift journal")
	killed := depot.sent()
	if out := first.must(shown); !strings.Contains(out, "done: ") {
		t.Errorf("the install ended without saying so:\n%s", out)
	}
	depot.sentOnce("a node whose install was killed once", 0, url)
	t.Logf("%d bytes were sent until the kill", killed)
	t.Run("cluster", func(t *testing.T) { cluster(node{first.Host, t}) })
	if out := first.must(shown); !strings.Contains(out, "nothing to do") {
		t.Errorf("second run:\n%s", out)
	}

	printed := first.joinCommand("--from " + url)
	worker.refuses(printed+" --ca-hash sha256:"+strings.Repeat("0", 64), 1, "not from the CA with the given hash")
	before := depot.sent()
	if out := worker.must(printed); !strings.Contains(out, "done: ") {
		t.Errorf("the join ended without saying so:\n%s", out)
	}
	depot.sentOnce("a worker", before, url)
	first.must(kubectl + "wait --for=condition=Ready nodes --all --timeout=180s")
	if got := first.must(kubectl + "get nodes --no-headers"); strings.Count(got, " Ready ") != 2 {
		t.Errorf("nodes:\n%s", got)
	}
	if out := worker.must("sealift status -o json"); !strings.Contains(out, `"bundle": "`+url+`"`) {
		t.Errorf("the node does not know where it came from:\n%s", out)
	}
	if refused := depot.metric("sealift_http_requests_refused_total"); refused != 0 {
		t.Errorf("%d requests were too many for the server", refused)
	}
}

// sentOnce checks that no byte of a bundle was sent twice since before. It allows the part that every run reads for its plan, and
// the bytes that were on their way when a run was killed.
func (n node) sentOnce(to string, before int64, url string) {
	n.t.Helper()
	sent, size := n.sent()-before, n.bundleSize(url)
	n.t.Logf("%s: %d bytes in %d requests so far, of a bundle of %d", to, sent, n.metric("sealift_http_requests_total"), size)
	if sent > size+size/20 {
		n.t.Errorf("%s was sent %d bytes of a bundle of %d", to, sent, size)
	}
}

// dir is the folder with all that the road led through.
func (r delivery) dir() string { return filepath.Dir(r.packages) }

// programs puts the packages of programs that a host has before Sealift is installed, with their dependencies, into a folder of the
// disk.
func (r delivery) programs(t *testing.T, system string, names ...string) {
	t.Helper()
	addOn := filepath.Join(r.debs(), "addons", "programs", "1")
	place(t, filepath.Join(addOn, "Manifest"), []byte("apt "+strings.Join(names, "\napt ")+"\n"))
	place(t, filepath.Join(addOn, "install.sh"), []byte("programs() { :; }\n"))
	r.run(t, "build", "--out", r.debs(), "--target", system, "--config", r.config, "--cache", r.cache, addOn)
	shell(t, r.debs(), "tar xzf programs-1.tar.gz && mv addons/programs/1/packages/"+system+"/*.deb . && rm -r addons programs-1.tar.gz")
}

// debs is the folder that programs fills.
func (r delivery) debs() string { return filepath.Join(r.dir(), "debs") }

// tools makes a folder with curl and sudo, which a person who pastes a line with them has, and with an S3 server.
func (r delivery) tools(t *testing.T) string {
	t.Helper()
	return r.part(t, "debs", func(dir string) {
		r.programs(t, "debian-12", "curl", "nftables", "sudo")
		server := component(t, upstream.Program("versitygw"))
		shell(t, dir, "cp "+server+" .")
	})
}

// shell runs a command of the building machine.
func shell(t *testing.T, dir, command string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "bash", "-c", command)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
}

const bucket = "s3://packages?endpoint=http://127.0.0.1:7070"

// serves publishes the packages to a bucket of the host, and starts a server before it. It returns the server's URL.
func (n node) serves() string {
	n.t.Helper()
	const account = "export AWS_ACCESS_KEY_ID=lab AWS_SECRET_ACCESS_KEY=lab-secret AWS_EC2_METADATA_DISABLED=true; "
	unit := func(name, command string) {
		n.must("systemd-run --quiet --unit=" + name + " bash -c " + shellword.Quote(account+"HOME=/root exec "+command))
	}
	answers := func(url string) {
		n.must("curl -fsS --retry 120 --retry-delay 1 --retry-all-errors --max-time 300 -o /dev/null " + url + " || { journalctl -n 30; exit 1; }")
	}
	n.must("mkdir -p /srv/objects/packages")
	unit("objects", "/media/usb2/versitygw --access lab --secret lab-secret --port 127.0.0.1:7070 --health /health posix /srv/objects")
	answers("http://127.0.0.1:7070/health")
	n.must(account + "/media/usb/sealift publish /media/usb/packages/*.tar.gz --store " + shellword.Quote(bucket))
	unit("server", "/media/usb/sealift serve --listen :8080 --metrics-listen 127.0.0.1:9090 --store "+shellword.Quote(bucket))
	answers("http://127.0.0.1:8080/readyz")
	return "http://" + n.Address().String() + ":8080"
}

// sent returns the number of bytes that the server on the host has sent to installing hosts.
func (n node) sent() int64 {
	n.t.Helper()
	return n.metric("sealift_http_sent_bytes_total.*(bundle|bin)")
}

// metric is the sum of all values of a metric of the host's server.
func (n node) metric(pattern string) int64 {
	n.t.Helper()
	return n.number("curl -fsS http://127.0.0.1:9090/metrics | awk '/^" + pattern + "/ { sum += $NF } END { printf \"%.0f\", sum }'")
}

// bundleSize is the size of the whole bundle of an Installer.
func (n node) bundleSize(url string) int64 {
	n.t.Helper()
	base, id := url[:strings.LastIndex(url, "/")], url[strings.LastIndex(url, "/")+1:]
	return n.number("curl -fsSI " + base + "/bundle/" + id + ".tar.gz | awk 'tolower($1) == \"content-length:\" { printf \"%d\", $2 }'")
}

func (n node) number(script string) int64 {
	n.t.Helper()
	number, err := strconv.ParseInt(n.must(script), 10, 64)
	if err != nil {
		n.t.Fatalf("%s: %v", script, err)
	}
	return number
}
