//go:build grid

package airgap_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sealift/sealift/internal/testing/docexamples"
	"github.com/sealift/sealift/internal/testing/fixture"
	"github.com/sealift/sealift/internal/testing/lab"
	"github.com/sealift/sealift/testgrid/lab/host"
)

// routed is two pods that serve their name, behind an Ingress with TLS and a route of the Gateway API.
const routed = `apiVersion: apps/v1
kind: Deployment
metadata: {name: names}
spec:
  replicas: 2
  selector: {matchLabels: {app: names}}
  template:
    metadata: {labels: {app: names}}
    spec:
      containers:
      - name: web
        image: docker.io/library/busybox:1.35.0
        imagePullPolicy: IfNotPresent
        command: [sh, -c, 'hostname >/tmp/index.html && exec httpd -f -p 8080 -h /tmp']
        readinessProbe: {httpGet: {path: /, port: 8080}, periodSeconds: 1}
---
apiVersion: v1
kind: Service
metadata: {name: names}
spec:
  selector: {app: names}
  ports: [{port: 80, targetPort: 8080}]
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: names}
spec:
  tls: [{hosts: [names.example.com], secretName: names}]
  rules:
  - host: names.example.com
    http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: names, port: {number: 80}}}}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: names}
spec:
  parentRefs: [{name: traefik-gateway, namespace: traefik}]
  hostnames: [route.example.com]
  rules: [{backendRefs: [{name: names, port: 80}]}]
`

// fetches asks for a page from the network of a host, at an address instead of the one that the name has. The certificate must be of ca.
func (n node) fetches(ctx context.Context, ca, name, port, address string) (string, error) {
	scheme := "http"
	if strings.HasSuffix(port, "443") {
		scheme = "https"
	}
	var out, errOut bytes.Buffer
	err := n.Exec(ctx, host.Command{NetworkOnly: true, Stdout: &out, Stderr: &errOut, Args: []string{"curl", "--silent", "--show-error", "--fail", "--max-time", "10",
		"--cacert", ca, "--resolve", name + ":" + port + ":" + address, scheme + "://" + name + ":" + port + "/"}})
	if err != nil {
		return "", fmt.Errorf("%s at %s: %w: %s", name, address, err, errOut.String())
	}
	return out.String(), nil
}

// TestTraefikLeadsRequestsFromOutside uses a cluster of two nodes with metallb and traefik. A third host asks for pages by an Ingress, with
// TLS, and by a route of the Gateway API, through node ports and through an address of metallb, also while Traefik's pods are replaced. Then
// the page of the add-on is followed, to its removal.
func TestTraefikLeadsRequestsFromOutside(t *testing.T) {
	r, without := buildWith(t, "metallb", "traefik"), build(t, current, "debian-12")
	first := node{lab.Host(t, host.Spec{USB: []string{r.usb, without.usb}}), t}
	worker, outside := node{lab.Host(t, host.Spec{}), t}, node{lab.Host(t, host.Spec{}), t}
	pool := outside.another(10)
	first.writesSite("traefik: {replicas: 0}")
	first.refuses(install+site, 3, "traefik.replicas must be a number from 1 to 99")
	first.writesSite("metallb: {addresses: [" + pool + "/32]}\\n  traefik: {httpNodePort: 30180}")
	began := time.Now()
	worker.must(workerCommand(t, first.must(install+site)))
	t.Logf("both nodes took %s", time.Since(began).Round(time.Second))
	first.must(kubectl + "wait --for=condition=Ready nodes --all --timeout=180s")
	first.must(kubectl + "--namespace traefik rollout restart deployment/traefik && " + kubectl + "--namespace traefik rollout status deployment/traefik --timeout=180s") // onto both nodes

	ca := first.certified("names.example.com")
	first.must(kubectl + "apply -f - <<'END'\n" + routed + "END")
	first.must(kubectl + "rollout status deployment/names --timeout=180s")
	if got := first.must(kubectl + "--namespace traefik get service traefik -o jsonpath='{.status.loadBalancer.ingress[0].ip}'"); got != pool {
		t.Errorf("Traefik has the address %q, want %s", got, pool)
	}
	for _, way := range []struct{ address, plain, encrypted string }{
		{first.Address().String(), "30180", "30443"}, {worker.Address().String(), "30180", "30443"}, {pool, "80", "443"},
	} {
		outside.awaits(ca, "names.example.com", way.plain, way.address)
		outside.awaits(ca, "names.example.com", way.encrypted, way.address)
		outside.awaits(ca, "route.example.com", way.plain, way.address)
	}
	first.losesNothing(outside, ca, pool, worker.Address().String())
	first.pulled()
	if out := first.must(install + site); !strings.Contains(out, "nothing to do") {
		t.Errorf("second run:\n%s", out)
	}
	first.must(kubectl + "delete httproute/names ingress/names secret/names service/names deployment/names")
	first.must("cat >/root/route.yaml <<'END'\n" + docexamples.File(t, filepath.Join(repository, "docs/addons/traefik.md"), "route.yaml") + "END")
	first.followsAddOn("addons/traefik.md", pool)
	first.leaves("traefik\\|gateway.networking")
}

// certified makes a Secret with a certificate for a name, and returns the file with its CA.
func (n node) certified(name string) (ca string) {
	n.t.Helper()
	dir := n.t.TempDir()
	certificate, key := fixture.ServerCertificate(n.t, name)
	ca = filepath.Join(dir, "ca.pem")
	if err := os.WriteFile(ca, certificate, 0o644); err != nil {
		n.t.Fatal(err)
	}
	n.must("cat >/root/tls.crt <<'END'\n" + string(certificate) + "END\ncat >/root/tls.key <<'END'\n" + string(key) + "END\n" +
		kubectl + "create secret tls names --cert /root/tls.crt --key /root/tls.key; rm /root/tls.*")
	return ca
}

// awaits asks until a page of the pods comes.
func (n node) awaits(ca, name, port, address string) {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(n.t.Context(), time.Minute)
	defer cancel()
	for {
		got, err := n.fetches(ctx, ca, name, port, address)
		if err == nil && strings.HasPrefix(got, "names-") {
			n.t.Logf("%s:%s at %s: %s", name, port, address, strings.TrimSpace(got))
			return
		}
		if ctx.Err() != nil {
			n.t.Errorf("%s:%s at %s serves %q: %v", name, port, address, got, err)
			return
		}
		time.Sleep(time.Second)
	}
}

// way is how a client reaches Traefik.
type way struct{ name, port, address string }

// outage is what a client lost, and how long it had no answer at most.
type outage struct {
	asked   int
	causes  map[string]int // by the status of curl, with that of HTTP
	longest time.Duration
	errs    []string
}

// asksAllTheTime starts a client for each way. Call the returned function to stop them.
func (n node) asksAllTheTime(ca string, ways ...way) (stop func() []outage) {
	ctx, cancel := context.WithCancel(n.t.Context())
	var group sync.WaitGroup
	all := make([]outage, len(ways))
	for i, w := range ways {
		group.Go(func() {
			all[i].causes = map[string]int{}
			for answered := time.Now(); ctx.Err() == nil; time.Sleep(20 * time.Millisecond) {
				_, err := n.fetches(context.WithoutCancel(ctx), ca, w.name, w.port, w.address)
				all[i].asked++
				if err == nil {
					all[i].longest = max(all[i].longest, time.Since(answered))
					answered = time.Now()
					continue
				}
				_, said, _ := strings.Cut(err.Error(), "curl: ")
				all[i].causes[strings.TrimSpace(said)]++
				all[i].errs = append(all[i].errs, time.Now().Format(time.TimeOnly)+" "+err.Error())
			}
		})
	}
	return func() []outage {
		cancel()
		group.Wait()
		return all
	}
}

// losesNothing replaces Traefik's pods while two clients ask all the time: one by TLS at the address of metallb, one at a node port.
func (n node) losesNothing(outside node, ca, pool, worker string) {
	n.t.Helper()
	stop := outside.asksAllTheTime(ca, way{"names.example.com", "443", pool}, way{"route.example.com", "30180", worker})
	out, code := n.run(kubectl + "--namespace traefik rollout restart deployment/traefik && " + kubectl + "--namespace traefik rollout status deployment/traefik --timeout=300s && sleep 15")
	if code != 0 {
		n.t.Errorf("the rollout ended with %d:\n%s", code, out)
	}
	for _, client := range stop() {
		n.t.Logf("a client asked %d times while Traefik's pods were replaced, and lost %d requests", client.asked, len(client.errs))
		if client.asked < 100 || len(client.errs) > 0 {
			n.t.Errorf("lost: %q", client.errs)
		}
	}
}
