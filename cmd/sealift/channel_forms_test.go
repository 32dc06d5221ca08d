package main

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/bundle/signature"
	"github.com/sealift/sealift/channel"
	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/internal/testing/fixture"
	"github.com/sealift/sealift/internal/testing/objects"
	"github.com/sealift/sealift/store"
)

// testChannelForms reads one channel from a disk, from the web and from a bucket, with manifests of each form in it.
func testChannelForms(c *channelCluster) {
	c.write("channel/plain.yaml", configMap("form-plain", "1"))
	c.write("channel/custom/kustomization.yaml", "namespace: kube-system\nresources: [../base, more.yaml]\nconfigMapGenerator: [{name: form-generated, files: [settings.ini], options: {disableNameSuffixHash: true}}]\n")
	c.write("channel/custom/more.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: form-more}\n")
	c.write("channel/custom/settings.ini", "a = b\n")
	c.write("channel/base/kustomization.yaml", "resources: [base.yaml]\n")
	c.write("channel/base/base.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: form-base}\n")
	index := c.index("channel/addons.yaml", "{name: form-plain, version: 1.0.0, manifest: plain.yaml}", "{name: form-custom, version: 1.0.0, manifest: custom/}")
	web := httptest.NewServer(http.FileServer(http.Dir(c.dir + "/channel")))
	c.Cleanup(web.Close)
	bucket := objects.Start(c)
	c.upload(c.dir+"/channel", bucket.URL("prod"))
	names := []string{"form-plain", "form-more", "form-base", "form-generated"}
	use := func(location string) {
		c.Helper()
		c.must("apply", location, "--yes")
		for _, name := range names {
			if c.get("v1/configmaps", "kube-system", name) == nil {
				c.Errorf("%s: %s is missing", location, name)
				continue
			}
			if err := c.client.Resource(gvr("v1/configmaps")).Namespace("kube-system").Delete(c.Context(), name, deleteNow); err != nil {
				c.Fatal(err)
			}
		}
		c.clear()
	}
	use(index)
	use("file://" + index)
	use(web.URL + "/addons.yaml")
	use(bucket.URL("prod/addons.yaml"))
	c.Setenv("S3_ENDPOINT", bucket.Endpoint)
	if code, _, errOut := c.sealift("apply", "s3://"+objects.Bucket+"/prod/addons.yaml"); code != app.ExitFailed || !strings.Contains(errOut, "S3_ACCESS_KEY_ID and S3_SECRET_ACCESS_KEY must be set") {
		c.Errorf("exit code %d: %s", code, errOut)
	}
	c.Setenv("S3_ACCESS_KEY_ID", os.Getenv("AWS_ACCESS_KEY_ID"))
	c.Setenv("S3_SECRET_ACCESS_KEY", os.Getenv("AWS_SECRET_ACCESS_KEY"))
	c.Setenv("AWS_ACCESS_KEY_ID", "wrong")
	c.Setenv("AWS_SECRET_ACCESS_KEY", "wrong")
	use("s3://" + objects.Bucket + "/prod/addons.yaml")
	for name, text := range map[string]string{
		"elsewhere": "resources: [https://example.com/x.yaml]\n",
		"climbing":  "resources: [../../../../../../../etc/passwd.yaml]\n",
		"wrong":     "resources: {\n",
	} {
		c.write("channel/"+name+"/kustomization.yaml", text)
		index := c.index("channel/"+name+".yaml", fmt.Sprintf("{name: form-%s, version: 1.0.0, manifest: %s/}", name, name))
		for _, location := range []string{index, web.URL + "/" + filepath.Base(index)} {
			if code, _, errOut := c.sealift("apply", location, "--yes"); code != app.ExitFailed || !strings.Contains(errOut, "error updating") {
				c.Errorf("%s: exit code %d: %s", location, code, errOut)
			}
		}
	}
}

// upload copies a folder into a store.
func (c *channelCluster) upload(dir, location string) {
	c.Helper()
	to, err := store.Opener{Write: true}.Open(location)
	if err != nil {
		c.Fatal(err)
	}
	err = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		key, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		_, err = to.Put(c.Context(), key, store.Bytes(data))
		return err
	})
	if err != nil {
		c.Fatal(err)
	}
}

// packageOf writes the package of an add-on with the given files of its folder.
func (c *channelCluster) packageOf(name, version string, files map[string]string, keys ...*signature.Key) string {
	c.Helper()
	p := bundle.Package{Name: name, Version: version, Files: []bundle.File{}}
	for file, text := range files {
		p.Files = append(p.Files, bundle.BytesFile(bundle.AddOnDir(name, version)+"/"+file, 0o644, []byte(text)))
	}
	var o bundle.WriteOptions
	if len(keys) > 0 {
		o.Key = keys[0]
	}
	var out bytes.Buffer
	if _, err := bundle.WritePackage(c.Context(), &out, p, o); err != nil {
		c.Fatal(err)
	}
	return c.write("built/"+name+"-"+version+".tar.gz", out.String())
}

func testChannelPackages(c *channelCluster) {
	manifest := func(value string) map[string]string {
		return map[string]string{
			"install.sh": "", "Manifest": "", "yaml/kustomization.yaml": "resources: [a.yaml]\n", "yaml/a.yaml": configMap("packaged", value),
			"images/blobs/sha256/aa": "not an image",
		}
	}
	folder := filepath.Join(c.dir, "store")
	publish := func(archives ...string) {
		var out, errOut bytes.Buffer
		args := append([]string{"publish", "--store", folder, "--cache", c.dir + "/cache"}, archives...)
		if code := run(c.Context(), args, strings.NewReader(""), &out, &errOut); code != app.ExitDone {
			c.Fatalf("exit code %d: %s", code, &errOut)
		}
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		c.Fatal(err)
	}
	publish(c.packageOf("packaged", "1.10.0", manifest("ten")), c.packageOf("packaged", "1.9.0", manifest("nine")),
		c.packageOf("packaged", "2024-05-10T01-41-38Z", manifest("dated")),
		c.packageOf("hosted", "1.0.0", map[string]string{"install.sh": "", "Manifest": ""}),
		c.packageOf("rendered", "1.0.0", map[string]string{"install.sh": "", "Manifest": "", "kustomization.yaml": "resources: [made-on-the-host.yaml]\n"}))
	code, _, errOut := c.sealift("index", "--store", folder, "--out", folder+"/addons.yaml")
	for _, want := range []string{"left out hosted 1.0.0: the package has no kustomization.yaml", "left out rendered 1.0.0: "} {
		if code != app.ExitDone || !strings.Contains(errOut, want) {
			c.Errorf("exit code %d: %s", code, errOut)
		}
	}
	data, err := os.ReadFile(folder + "/addons.yaml")
	if err != nil {
		c.Fatal(err)
	}
	var index struct {
		Kind string
		Spec struct{ Addons []channel.Entry }
	}
	if err := yaml.Unmarshal(data, &index); err != nil || index.Kind != "Addons" || len(index.Spec.Addons) != 3 || index.Spec.Addons[2].Manifest != "packaged-1.10.0.tar.gz" {
		c.Errorf("%v in\n%s", err, data)
	}
	c.must("apply", folder+"/addons.yaml", "--yes", "--verify")
	if c.value("packaged") != "ten" || !strings.Contains(c.recorded("kube-system", "packaged"), `"version":"1.10.0"`) {
		c.Errorf("the cluster has %q, recorded %s", c.value("packaged"), c.recorded("kube-system", "packaged"))
	}
	// The same name with other bytes: the index of the store and the channel are about the ones before.
	if err := os.Rename(c.packageOf("packaged", "1.10.0", manifest("other")), folder+"/packaged-1.10.0.tar.gz"); err != nil {
		c.Fatal(err)
	}
	c.clear()
	if code, _, errOut := c.sealift("apply", folder+"/addons.yaml", "--yes"); code != app.ExitFailed || !strings.Contains(errOut, "index.json") || c.value("packaged") != "ten" {
		c.Errorf("another package: exit code %d: %s\nthe cluster has %s", code, errOut, c.value("packaged"))
	}
	_, out, _ := c.sealift("index", "--store", folder, "--absolute")
	if !strings.Contains(out, "manifest: "+folder+"/packaged-1.9.0.tar.gz") {
		c.Errorf("absolute:\n%s", out)
	}
	c.clear()
}

func testChannelSigned(c *channelCluster) {
	key, public := fixture.SigningKey(c)
	trusted := c.write("vendor.pub", string(public.Marshal()))
	files := map[string]string{"install.sh": "", "Manifest": "", "kustomization.yaml": "resources: [a.yaml]\n", "a.yaml": configMap("signed", "1")}
	c.packageOf("signed", "1.0.0", files, key)
	c.packageOf("unsigned", "1.0.0", files)
	for _, tt := range []struct {
		manifest string
		code     int
		err      string
	}{
		{"built/unsigned-1.0.0.tar.gz", app.ExitFailed, "not signed with a given key"},
		{"plain.yaml", app.ExitFailed, "only packages are signed"},
		{"built/signed-1.0.0.tar.gz", app.ExitDone, ""},
	} {
		index := c.index("addons.yaml", "{name: signed, version: 1.0.0, manifest: "+tt.manifest+"}")
		if code, _, errOut := c.sealift("apply", "-f", index, "--yes", "--key", trusted); code != tt.code || !strings.Contains(errOut, tt.err) {
			c.Errorf("%s: exit code %d: %s", tt.manifest, code, errOut)
		}
		if applied := c.value("signed") != ""; applied != (tt.code == app.ExitDone) {
			c.Errorf("%s: applied %v", tt.manifest, applied)
		}
	}
	c.clear()
}

func testChannelBuild(c *channelCluster) {
	c.write("v1.yaml", configMap("built-a", "1")+"---\n"+configMap("built-b", "1"))
	c.write("v2.yaml", configMap("built-a", "2"))
	build := func(version, manifest string) string {
		c.Helper()
		c.must("build", "-f", c.index("source.yaml", fmt.Sprintf("{name: built, version: %s, selector: {k8s-addon: built}, manifest: %s}", version, manifest)), "--out", c.dir+"/out")
		return c.dir + "/out/addons.yaml"
	}
	c.must("apply", build("1.0.0", "v1.yaml"), "--yes", "--verify")
	labels := c.get("v1/configmaps", "kube-system", "built-b").GetLabels()
	for key, want := range map[string]string{"app": "built-b", "app.kubernetes.io/managed-by": "kops", "addon.kops.k8s.io/name": "built", "k8s-addon": "built"} {
		if labels[key] != want {
			c.Errorf("label %s is %q, want %q", key, labels[key], want)
		}
	}
	c.must("apply", build("1.1.0", "v2.yaml"), "--yes", "--verify")
	if c.value("built-a") != "2" || c.get("v1/configmaps", "kube-system", "built-b") != nil {
		c.Error("the new version did not prune what it no longer contains")
	}
	code, _, errOut := c.sealift("build", "-f", c.index("source.yaml", "{name: built, version: 1.0.0, selector: {app: other}, manifest: v2.yaml}"), "--out", c.dir+"/out")
	if code != app.ExitFailed || !strings.Contains(errOut, `label "app" already set to "built-a" while it should be "other"`) {
		c.Errorf("exit code %d: %s", code, errOut)
	}
	c.clear()
}
