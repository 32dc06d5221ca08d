//go:build grid

package airgap_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/sealift/sealift/internal/releases"
	"github.com/sealift/sealift/internal/shellword"
	"github.com/sealift/sealift/internal/testing/lab"
	"github.com/sealift/sealift/testgrid/lab/host"
	"github.com/sealift/sealift/testgrid/lab/mirror"
)

// objectStoreSection is what the test's Installer says of the add-on.
const objectStoreSection = "  objectStore:\n    version: VERSION\n    buckets: [backups, artifacts]\n    nodePort: 30070\n"

// addOnDeliveries makes two bundles with an add-on that 'make test' does not make. The first one has a copy of the add-on with a lower version,
// and the same program, because the Go proxy has no older one.
func addOnDeliveries(t *testing.T, name, before, section string, more ...string) (older, newer delivery) {
	t.Helper()
	r := releases.Newest(name)
	chosen, folders := []string{"v" + current, name + "/" + r.Version}, addOns(current)
	for _, other := range more {
		chosen = append(chosen, other+"/"+releases.Newest(other).Version)
		folders = append(folders, other+"/"+releases.Newest(other).Version)
	}
	bundle := func(version, addOn string) delivery {
		return deliveries.once(t, name+"-"+version, func(d delivery) {
			d.mirrored(t, mirror.Of(chosen...), func() {
				args := []string{"build", "--out", d.packages, "--target", "debian-12", "--config", d.config, "--cache", d.cache, addOn}
				for _, folder := range folders {
					args = append(args, "addons/"+folder)
				}
				d.run(t, args...)
			})
			demo, err := os.ReadFile(filepath.Join(repository, "testgrid/demo/installer.yaml"))
			if err != nil {
				t.Fatal(err)
			}
			d.bundle(t, string(demo)+strings.ReplaceAll(section, "VERSION", version))
		})
	}
	older = bundle(before, filepath.Join(copied(t, name, r.Version, before), name, before))
	return older, bundle(r.Version, r.Folder())
}

// copied copies an add-on under another version, and returns the folder of the tree.
func copied(t *testing.T, name, version, as string) string {
	t.Helper()
	tree := filepath.Join(t.TempDir(), "addons")
	source, err := filepath.Abs(filepath.Join(repository, "addons", name, version))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(tree, name), 0o755); err != nil {
		t.Fatal(err)
	}
	shell(t, filepath.Join(tree, name), "cp -rL "+shellword.Quote(source)+" "+as+" && echo '# the version before' >>"+as+"/install.sh")
	return tree
}

// client returns an S3 client with the credentials of a bucket. It reaches the store by the port of the node.
func (n node) client(bucket string, trusted *x509.CertPool) *s3.Client {
	n.t.Helper()
	value := func(key string) string {
		return n.must(kubectl + "--namespace object-store get secret bucket-" + bucket + " -o jsonpath='{.data." + key + "}' | base64 -d")
	}
	endpoint := value("endpoint")
	transport := &http.Transport{
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return n.Dial(ctx, network, net.JoinHostPort(n.Address().String(), "30070"))
		},
		TLSClientConfig: &tls.Config{RootCAs: trusted}, DisableKeepAlives: true,
	}
	n.t.Cleanup(transport.CloseIdleConnections)
	return s3.New(s3.Options{
		BaseEndpoint: aws.String(endpoint), Region: value("region"), UsePathStyle: true, HTTPClient: &http.Client{Transport: transport},
		Credentials: credentials.NewStaticCredentialsProvider(value("accessKey"), value("secretKey"), ""),
	})
}

// content returns text of a size in bytes.
func content(size int) []byte {
	return bytes.Repeat([]byte("a line of an object\n"), size/20+1)[:size]
}

// part is the size of a part that S3 requires.
const part = 5 << 20

// uploadsInParts writes an object of two whole parts and a rest.
func uploadsInParts(t *testing.T, c *s3.Client, bucket, key string) []byte {
	t.Helper()
	whole := content(2*part + 1000)
	upload, err := c.CreateMultipartUpload(t.Context(), &s3.CreateMultipartUploadInput{Bucket: aws.String(bucket), Key: aws.String(key),
		ChecksumAlgorithm: types.ChecksumAlgorithmCrc32})
	if err != nil {
		t.Fatal(err)
	}
	var done []types.CompletedPart
	for number := int32(1); number <= 3; number++ {
		from := int(number-1) * part
		out, err := c.UploadPart(t.Context(), &s3.UploadPartInput{Bucket: aws.String(bucket), Key: aws.String(key), UploadId: upload.UploadId,
			PartNumber: aws.Int32(number), ChecksumAlgorithm: types.ChecksumAlgorithmCrc32, Body: bytes.NewReader(whole[from:min(from+part, len(whole))])})
		if err != nil {
			t.Fatalf("part %d: %v", number, err)
		}
		done = append(done, types.CompletedPart{ETag: out.ETag, PartNumber: aws.Int32(number), ChecksumCRC32: out.ChecksumCRC32})
	}
	if _, err := c.CompleteMultipartUpload(t.Context(), &s3.CompleteMultipartUploadInput{Bucket: aws.String(bucket), Key: aws.String(key),
		UploadId: upload.UploadId, MultipartUpload: &types.CompletedMultipartUpload{Parts: done}}); err != nil {
		t.Fatal(err)
	}
	return whole
}

// readsObject checks an object.
func readsObject(t *testing.T, c *s3.Client, bucket, key string, want []byte) {
	t.Helper()
	out, err := c.GetObject(t.Context(), &s3.GetObjectInput{Bucket: aws.String(bucket), Key: aws.String(key)})
	if err != nil {
		t.Errorf("read %s: %v", key, err)
		return
	}
	defer out.Body.Close()
	got, err := io.ReadAll(out.Body)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s has %d bytes, want %d: %v", key, len(got), len(want), err)
	}
}

// TestObjectStoreKeepsObjects writes objects with the AWS SDK, in parts, too. They are there after a restart of the pod and of the node, and
// after an upgrade of the add-on. Then the page of the add-on is followed, to its removal.
func TestObjectStoreKeepsObjects(t *testing.T) {
	older, newer := addOnDeliveries(t, "object-store", "1.7.9", objectStoreSection)
	without := build(t, current, "debian-12")
	n := node{lab.Host(t, host.Spec{USB: []string{older.usb, without.usb, newer.usb}}), t}
	n.refuses(install+" objectStore.claimSize=many", 3, "objectStore.claimSize must be a size such as 20Gi")
	began := time.Now()
	n.must(install)
	t.Logf("the cluster took %s", time.Since(began).Round(time.Second))
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(n.must("cat /etc/kubernetes/pki/ca.crt")))
	backups := n.client("backups", roots)

	small := []byte("written through TLS\n")
	if _, err := backups.PutObject(t.Context(), &s3.PutObjectInput{Bucket: aws.String("backups"), Key: aws.String("a/small"), Body: bytes.NewReader(small)}); err != nil {
		t.Fatal(err)
	}
	large := uploadsInParts(t, backups, "backups", "large")
	hasAll := func(when string) {
		t.Helper()
		t.Logf("%s: %s", when, n.must(kubectl+"--namespace object-store get pods --no-headers"))
		c := n.client("backups", roots)
		readsObject(t, c, "backups", "a/small", small)
		readsObject(t, c, "backups", "large", large)
	}
	hasAll("at first")
	n.refusesStrangers(roots)

	ready := "for i in $(seq 120); do " + kubectl + "--namespace object-store rollout status deployment/object-store --timeout 5s && exit 0; sleep 2; done; exit 1"
	n.must(kubectl + "--namespace object-store delete pod --all --timeout 120s")
	n.must(ready)
	hasAll("after a restart of the pod")
	if err := n.Reboot(t.Context()); err != nil {
		t.Fatal(err)
	}
	n.must("mkdir -p /media; for i in $(seq 120); do " + kubectl + "get --raw /readyz --request-timeout=3s && exit 0; sleep 2; done; exit 1")
	n.must(ready) // what the Deployment says may still be from before the restart
	n.must("for i in $(seq 120); do timeout 3 bash -c ': </dev/tcp/" + n.Address().String() + "/30070' 2>/dev/null && exit 0; sleep 2; done; exit 1")
	hasAll("after a restart of the node")

	secret := kubectl + "--namespace object-store get secret bucket-backups object-store-tls -o jsonpath='{.items[*].data}'"
	before := n.must(secret)
	out := n.must("cat /media/usb3/install.sh >/dev/null; sealift upgrade --bundle /media/usb3/cluster.tar.gz --yes 2>&1")
	t.Logf("the upgrade of the add-on:\n%s", out)
	n.must(ready)
	hasAll("after the upgrade")
	if after := n.must(secret); after != before {
		t.Error("the upgrade changed credentials or the certificate")
	}
	if version := n.must(kubectl + "get configmaps -A -o json | grep -c 'object-store' || true"); version == "0\n" {
		t.Error("no record names the add-on")
	}
	n.pulled()
	n.leavesObjectStore()
}

// refusesStrangers tries the credentials of another bucket, a client that does not know the CA, and plain HTTP.
func (n node) refusesStrangers(roots *x509.CertPool) {
	n.t.Helper()
	ctx := n.t.Context()
	_, err := n.client("artifacts", roots).GetObject(ctx, &s3.GetObjectInput{Bucket: aws.String("backups"), Key: aws.String("a/small")})
	if err == nil || !strings.Contains(err.Error(), "403") {
		n.t.Errorf("with the credentials of another bucket: %v", err)
	}
	_, err = n.client("artifacts", roots).PutObject(ctx, &s3.PutObjectInput{Bucket: aws.String("backups"), Key: aws.String("b"), Body: strings.NewReader("b")})
	if err == nil || !strings.Contains(err.Error(), "403") {
		n.t.Errorf("a write with the credentials of another bucket: %v", err)
	}
	_, err = n.client("backups", x509.NewCertPool()).HeadObject(ctx, &s3.HeadObjectInput{Bucket: aws.String("backups"), Key: aws.String("a/small")})
	if unknown := (x509.UnknownAuthorityError{}); !errors.As(err, &unknown) {
		n.t.Errorf("a client that does not trust the CA: %v", err)
	}
	conn, err := n.Dial(ctx, "tcp", net.JoinHostPort(n.Address().String(), "30070"))
	if err != nil {
		n.t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	_, _ = io.WriteString(conn, "GET /backups/a/small HTTP/1.0\r\n\r\n")
	if answer, _ := io.ReadAll(conn); bytes.Contains(answer, []byte("written through TLS")) || bytes.HasPrefix(answer, []byte("HTTP/1.0 200")) {
		n.t.Errorf("plain HTTP was answered: %q", answer)
	}
}

// leavesObjectStore follows the page. Afterwards nothing of the add-on is left.
func (n node) leavesObjectStore() {
	n.t.Helper()
	n.followsAddOn("addons/object-store.md", "")
	n.lacks("object-store", "versitygw")
}

// lacks checks that no object and no file of the host has one of these names, but for the record of the add-on.
func (n node) lacks(names ...string) {
	n.t.Helper()
	any := "'" + strings.Join(names, "\\|") + "'"
	left := n.must(kubectl + "get $(" + kubectl + "api-resources --verbs=list --output name | grep -v '^events' | paste -sd,) -A --ignore-not-found --no-headers 2>/dev/null | grep -i " + any + " | grep -v '^sealift ' || true") // Sealift's record of the set
	if left != "" {
		n.t.Errorf("objects are left:\n%s", left)
	}
	if left = n.must("find /etc /opt /usr/local /var/lib/sealift/kustomize -xdev | grep -i " + any + " || true"); left != "" {
		n.t.Errorf("files of the host are left:\n%s", left)
	}
	n.t.Logf("images that are left: %s", n.must("ctr --namespace k8s.io images ls -q | grep -i "+any+" || true"))
}
