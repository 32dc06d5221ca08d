//go:build grid

package airgap_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/sealift/sealift/internal/testing/lab"
	"github.com/sealift/sealift/testgrid/lab/host"
	"github.com/sealift/sealift/testgrid/lab/upstream"
)

// builtOnCluster is how many packages the cluster builds.
const builtOnCluster = 40

// builderImage is the name of the image that its pods run.
const builderImage = "example.org/sealift:1"

// TestTwoNodeClusterBuildsPackages builds packages in pods of a cluster without a network. What their Manifests name is on a web
// server of the first node, and so is the bucket. One pod is killed in the middle. The packages are those of this machine.
func TestTwoNodeClusterBuildsPackages(t *testing.T) {
	r := build(t, current, "debian-12")
	dir, local := r.buildOnCluster(t)
	first := node{lab.Host(t, host.Spec{USB: []string{r.usb, dir}}), t}
	worker := node{lab.Host(t, host.Spec{USB: []string{dir}}), t}
	first.must(install)
	worker.must(first.joinCommand(""))
	first.hasNodes(2)
	for n, usb := range map[node]string{first: "usb2", worker: "usb"} {
		n.must("ctr --namespace k8s.io images import --index-name " + builderImage + " /media/" + usb + "/image.tar")
	}
	address := first.Address().String()
	const account = "export HOME=/root AWS_ACCESS_KEY_ID=lab AWS_SECRET_ACCESS_KEY=lab-secret AWS_EC2_METADATA_DISABLED=true KUBECONFIG=/etc/kubernetes/admin.conf; "
	first.must("mkdir -p /srv/objects/packages; systemd-run --quiet --unit=objects /media/usb2/versitygw --access lab --secret lab-secret --port :7070 posix /srv/objects")
	first.must("systemd-run --quiet --unit=upstream " + kubectl + "proxy --www=/media/usb2/upstream --www-prefix=/static/ --address=0.0.0.0 --accept-hosts=.*")
	first.must("for port in 7070 8001; do for i in $(seq 240); do (exec 3<>/dev/tcp/127.0.0.1/$port) && continue 2; sleep 0.5; done; exit 1; done")
	first.must("for i in $(seq 60); do " + kubectl + "get serviceaccount default && break; sleep 1; done")
	first.must(kubectl + "create secret generic key --from-literal=AWS_ACCESS_KEY_ID=lab --from-literal=AWS_SECRET_ACCESS_KEY=lab-secret")
	first.must("echo 'mirrors: {https://files.example.com/: http://" + address + ":8001/static/}' >/root/sealift.yaml")
	command := account + "cd /root && /media/usb2/sealift build /media/usb2/addons/*/1 --on kubernetes --image " + builderImage +
		" --store 's3://packages/farm?endpoint=http://" + address + ":7070' --secret key --parallelism 6 --cpu 300m --memory 256Mi -o json"
	out := first.must(command + ` >built.json 2>build.log & build=$!
for i in $(seq 1200); do [ "$(ls /srv/objects/packages/farm/batch/results 2>/dev/null | wc -l)" -lt 5 ] || break; sleep 0.25; done
for i in $(seq 100); do pod=$(` + kubectl + `get pods -l app.kubernetes.io/component=build --field-selector=status.phase=Running -o name | head -1); [ -z "$pod" ] || break; sleep 0.1; done
` + kubectl + `delete "$pod" --grace-period=0 --force 2>&1
` + kubectl + `get pods -l app.kubernetes.io/component=build -o jsonpath='{range .items[*]}on {.spec.nodeName}{"\n"}{end}' | sort | uniq -c
wait $build || { cat build.log; ` + kubectl + `get pods -o wide; exit 1; }
cat build.log
for i in $(seq 120); do left=$(` + kubectl + `get jobs,pods,secrets -l app.kubernetes.io/component=build -o name); [ -n "$left" ] || break; sleep 0.5; done
echo "left: $left"`)
	t.Log(out)
	for _, want := range []string{"force deleted", "on " + first.Name(), "on " + worker.Name()} {
		if !strings.Contains(out, want) {
			t.Errorf("the output lacks %q", want)
		}
	}
	if !strings.HasSuffix(strings.TrimSpace(out), "left:") {
		t.Error("something is left")
	}
	built := builtDigests(t, first.must("cat /root/built.json"))
	if len(built) != builtOnCluster {
		t.Errorf("%d packages", len(built))
	}
	for name, digest := range local {
		if built[name] != digest {
			t.Errorf("%s: %s in a pod, %s here", name, built[name], digest)
		}
	}
	again := first.must(command + " >/root/again.json 2>/root/again.log; grep -c '\"upToDate\": true' /root/again.json")
	if strings.TrimSpace(again) != strconv.Itoa(builtOnCluster) {
		t.Errorf("a second build did something: %s", again)
	}
}

// buildOnCluster makes a disk with add-ons, what their Manifests name, and the image of pods, and builds the packages on this machine.
func (r delivery) buildOnCluster(t *testing.T) (dir string, digests map[string]string) {
	t.Helper()
	dir = t.TempDir()
	common := strings.Repeat("every package has this\n", 50_000)
	place(t, filepath.Join(dir, "upstream", "common"), []byte(common))
	var addOns []string
	for i := range builtOnCluster {
		name := fmt.Sprintf("farm-%02d", i)
		place(t, filepath.Join(dir, "upstream", name), []byte(strings.Repeat(name+"\n", 20_000)))
		addOn := filepath.Join(dir, "addons", name, "1")
		place(t, filepath.Join(addOn, "Manifest"), []byte("asset common https://files.example.com/common\nasset own https://files.example.com/"+name+"\n"))
		place(t, filepath.Join(addOn, "install.sh"), []byte("function farm() { :; }\n"))
		addOns = append(addOns, addOn)
	}
	server := httptest.NewServer(http.FileServer(http.Dir(filepath.Join(dir, "upstream"))))
	defer server.Close()
	config, cache := filepath.Join(t.TempDir(), "sealift.yaml"), t.TempDir()
	place(t, config, []byte("mirrors: {https://files.example.com/: "+server.URL+"/}\n"))
	r.run(t, append([]string{"lock", "--config", config, "--cache", cache}, addOns...)...)
	digests = builtDigests(t, r.run(t, append([]string{"build", "--locked", "--config", config, "--cache", cache, "--out", t.TempDir(), "-o", "json"}, addOns...)...))
	versitygw := component(t, upstream.Program("versitygw"))
	shell(t, repository, fmt.Sprintf("cp %s %s %s/ && go run ./deploy/image -binary %s -node %s/sealift-node -out %s/image.tar", versitygw, r.sealift, dir, r.sealift, r.dir(), dir))
	if _, err := os.Stat(filepath.Join(dir, "image.tar")); err != nil {
		t.Fatal(err)
	}
	return dir, digests
}

// builtDigests reads what 'sealift build -o json' prints: the sha256 of each package.
func builtDigests(t *testing.T, text string) map[string]string {
	t.Helper()
	var list []struct{ Name, SHA256 string }
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	digests := map[string]string{}
	for _, one := range list {
		digests[one.Name] = one.SHA256
	}
	return digests
}
