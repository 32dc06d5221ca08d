package builder_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/sealift/sealift/builder"
	"github.com/sealift/sealift/builder/cache"
	"github.com/sealift/sealift/builder/config"
	"github.com/sealift/sealift/builder/fetch"
	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/helm/engine"
	"github.com/sealift/sealift/internal/diag"
	"github.com/sealift/sealift/internal/sandbox"
	"github.com/sealift/sealift/internal/testing/fixture"
)

// TestMain lets this binary render charts.
func TestMain(m *testing.M) {
	sandbox.Main(engine.Tasks()...)
	os.Exit(m.Run())
}

const (
	fromRegistry   = "chart hello oci://registry.example.io/charts/hello 1.2.3 --namespace=greetings\n"
	fromRepository = "chart hello https://files.example.com/charts 1.2.3\n"
)

// chartWorld is a world whose registry has the three images of the chart hello, and whose registry and file server have the
// chart.
func chartWorld(t *testing.T, changes map[string]string) *world {
	t.Helper()
	w := newWorld(t, "debian-12")
	for i, image := range []string{"web:1", "clock:2", "setup:3", "sidecar:4"} {
		w.push(t, image, layer(byte(i), 1000))
	}
	w.offer(t, fixture.ChartArchive(t, "hello", fixture.HelloChart(changes)))
	return w
}

// offer puts the archive of the chart hello 1.2.3 into the registry and into the repository.
func (w *world) offer(t *testing.T, archive []byte) {
	t.Helper()
	artifact, err := mutate.AppendLayers(mutate.MediaType(empty.Image, types.OCIManifestSchema1),
		static.NewLayer(archive, "application/vnd.cncf.helm.chart.content.v1.tar+gzip"))
	if err != nil {
		t.Fatal(err)
	}
	ref, err := name.ParseReference(w.registry + "/mirrored/charts/hello:1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(ref, mutate.ConfigMediaType(artifact, "application/vnd.cncf.helm.config.v1+json")); err != nil {
		t.Fatal(err)
	}
	w.publish(t, "charts/archives/hello-1.2.3.tgz", string(archive))
	w.publish(t, "charts/index.yaml", fmt.Sprintf("apiVersion: v1\nentries:\n  hello:\n  - version: 1.2.3\n    digest: %x\n    urls: [archives/hello-1.2.3.tgz]\n  - version: 1.0.0\n    urls: [archives/gone.tgz]\n",
		sha256.Sum256(archive)))
}

func (w *world) chartBuilder(t *testing.T, c *cache.Cache, locked bool) *builder.Builder {
	t.Helper()
	settings, err := config.Load(w.config)
	if err != nil {
		t.Fatal(err)
	}
	b, err := builder.New(c, builder.Options{
		Config: settings, Targets: w.targets, Locked: locked, Retry: fetch.Retry{Attempts: 2, Wait: time.Millisecond}, Charts: engine.Renderer{},
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// unpacked is the content of a package, by path below its add-on's directory.
func unpacked(t *testing.T, path string) map[string]string {
	t.Helper()
	files := make(map[string]string)
	eachEntry(t, path, func(name string, r io.Reader) {
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		files[strings.TrimPrefix(name, "addons/demo/1.0/")] = string(content)
	})
	return files
}

func TestChartBringsItsImages(t *testing.T) {
	w := chartWorld(t, nil)
	for name, line := range map[string]string{"from a registry": fromRegistry, "from a repository": fromRepository} {
		t.Run(name, func(t *testing.T) {
			dir := addOn(t, "demo", line)
			writeFile(t, filepath.Join(dir, "charts/hello-values.yaml"), "greeting: moin\n")
			locked, err := w.chartBuilder(t, openCache(t), false).Lock(t.Context(), dir, builder.LockMissing)
			if err != nil {
				t.Fatal(err)
			}
			var what []string
			for _, c := range locked.Changes {
				what = append(what, c.What)
			}
			for _, want := range []string{"chart hello " + strings.Fields(line)[2], "image registry.example.io/clock:2", "image registry.example.io/setup:3", "image registry.example.io/web:1"} {
				if !slices.Contains(what, want) {
					t.Errorf("the lock lacks %s: %v", want, what)
				}
			}
			first := build(t, w.chartBuilder(t, openCache(t), true), dir)
			second := build(t, w.chartBuilder(t, openCache(t), true), dir)
			if first.SHA256 != second.SHA256 {
				t.Error("two builds of one lock give other bytes")
			}
			files := unpacked(t, first.Path)
			if !strings.Contains(files["charts/hello/rendered.yaml"], "value: moin\n") || files["charts/hello/kustomization.yaml"] == "" ||
				files["charts/hello-1.2.3.tgz"] != string(fixture.ChartArchive(t, "hello", fixture.HelloChart(nil))) {
				t.Errorf("the package has %v", slices.Sorted(maps.Keys(files)))
			}
			for _, image := range []string{"web:1", "clock:2", "setup:3"} {
				if !strings.Contains(files["images/index.json"], "registry.example.io/"+image) {
					t.Errorf("the package lacks the image %s", image)
				}
			}
			c, err := w.chartBuilder(t, openCache(t), true).Compare(t.Context(), dir, func(string, string) (*bundle.Archive, error) { return bundle.Open(first.Path) })
			if err != nil || len(c.Changes) > 0 {
				t.Errorf("the same build would change %v, %v", c.Changes, err)
			}
		})
	}
}

func TestLockedChartIsFetchedByDigest(t *testing.T) {
	w := chartWorld(t, nil)
	for name, line := range map[string]string{"from a registry": fromRegistry, "from a repository": fromRepository} {
		t.Run(name, func(t *testing.T) {
			w.offer(t, fixture.ChartArchive(t, "hello", fixture.HelloChart(nil)))
			dir := addOn(t, "demo", line)
			if _, err := w.chartBuilder(t, openCache(t), false).Lock(t.Context(), dir, builder.LockMissing); err != nil {
				t.Fatal(err)
			}
			before := build(t, w.chartBuilder(t, openCache(t), true), dir)
			w.offer(t, fixture.ChartArchive(t, "hello", fixture.HelloChart(map[string]string{"templates/more.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: more}\n"})))
			b := w.chartBuilder(t, openCache(t), true)
			after, err := b.Build(t.Context(), dir, t.TempDir())
			if strings.HasPrefix(line, "chart hello oci") {
				if err != nil || after.SHA256 != before.SHA256 {
					t.Errorf("the tag moved, the digest did not: %v", err)
				}
				return
			}
			assertFault(t, err, 1, "hello-1.2.3.tgz", "sealift lock --update")
		})
	}
}

func TestChartMistakesAreNamed(t *testing.T) {
	flipped := func(archive []byte) []byte {
		archive = slices.Clone(archive)
		archive[len(archive)/2] ^= 1
		return archive
	}
	tests := map[string]struct {
		manifest string
		files    map[string]string // of the chart
		own      map[string]string // of the add-on
		change   func(t *testing.T, w *world)
		line     int
		want     []string
	}{
		"a flipped byte in a repository": {manifest: "# a comment\n" + fromRepository, line: 2,
			change: func(t *testing.T, w *world) {
				w.publish(t, "charts/archives/hello-1.2.3.tgz", string(flipped(fixture.ChartArchive(t, "hello", fixture.HelloChart(nil)))))
			}, want: []string{"the index of its repository says sha256:", "damaged or replaced"}},
		"a flipped byte in a registry": {manifest: fromRegistry, line: 1,
			change: func(t *testing.T, w *world) { w.flip(t, fixture.ChartArchive(t, "hello", fixture.HelloChart(nil))) }, want: []string{"chart registry.example.io/charts/hello", "damaged"}},
		"a missing image": {manifest: fromRepository, files: map[string]string{"values.yaml": strings.ReplaceAll(fixture.HelloChart(nil)["values.yaml"], "web:1", "web:9")}, line: 1,
			want: []string{"chart hello, Deployment hello/hello, container web: image registry.example.io/web:9 does not exist", "check the spelling"}},
		"a template that fails": {manifest: fromRepository, files: map[string]string{"templates/x.yaml": "{{ required \"password is needed\" .Values.password }}"}, line: 1,
			want: []string{"chart hello 1.2.3 does not render", "hello/templates/x.yaml:1:3", "password is needed", "charts/hello-values.yaml"}},
		"random values": {manifest: fromRepository, files: map[string]string{"templates/x.yaml": "apiVersion: v1\nkind: Secret\nmetadata: {name: x}\nstringData: {a: {{ randAlphaNum 9 }}}\n"}, line: 1,
			want: []string{"Secret hello/x", "random values", "give the value in"}},
		"values that are not YAML": {manifest: fromRepository, own: map[string]string{"charts/hello-values.yaml": "a: 1\nb: [\n"}, line: -1, want: []string{"charts/hello-values.yaml:", "not the values of chart hello"}},
		"no such version":          {manifest: "chart hello https://files.example.com/charts 2.0.0\n", line: 1, want: []string{`no version 2.0.0 of chart "hello"`, "1.2.3, 1.0.0"}},
		"no such chart":            {manifest: "chart hullo https://files.example.com/charts 1.2.3\n", line: 1, want: []string{`no chart "hullo"`, `did you mean "hello"?`}},
		"no such repository":       {manifest: "chart hello https://files.example.com/none 1.2.3\n", line: 1, want: []string{"chart https://files.example.com/none/index.yaml", "404"}},
		"no such tag":              {manifest: "chart hello oci://registry.example.io/charts/hello 2.0.0\n", line: 1, want: []string{"chart registry.example.io/charts/hello:2.0.0 does not exist"}},
		"an image for a chart":     {manifest: "chart web oci://registry.example.io/web 1\n", line: 1, want: []string{"is of type application/vnd.oci.image.index"}},
		"another chart":            {manifest: fromRepository, files: map[string]string{"Chart.yaml": "apiVersion: v2\nname: hullo\nversion: 1.2.3\n"}, line: 1, want: []string{"has the name hullo in its Chart.yaml"}},
		"another chart's version":  {manifest: fromRepository, files: map[string]string{"Chart.yaml": "apiVersion: v2\nname: hello\nversion: 1.2.4\n"}, line: 1, want: []string{"has version 1.2.4 in its Chart.yaml"}},
	}
	w := chartWorld(t, nil)
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			w.offer(t, fixture.ChartArchive(t, "hello", fixture.HelloChart(test.files)))
			if test.change != nil {
				test.change(t, w)
			}
			dir := addOn(t, "demo", test.manifest)
			for file, content := range test.own {
				writeFile(t, filepath.Join(dir, file), content)
			}
			out := t.TempDir()
			_, err := w.chartBuilder(t, openCache(t), false).Build(t.Context(), dir, out)
			assertFault(t, err, test.line, test.want...)
			assertEmpty(t, out)
		})
	}
	t.Run("no lock", func(t *testing.T) {
		_, err := w.chartBuilder(t, openCache(t), true).Build(t.Context(), addOn(t, "demo", fromRegistry), t.TempDir())
		assertFault(t, err, 1, "chart hello 1.2.3 of oci://registry.example.io/charts/hello is not in", "sealift lock")
	})
}

// assertFault checks that an error has only this fault; line is the Manifest's, or negative.
func assertFault(t *testing.T, err error, line int, want ...string) {
	t.Helper()
	var faults diag.Errors
	if !errors.As(err, &faults) || len(faults) != 1 || line >= 0 && faults[0].Pos.Line != line {
		t.Fatalf("got %v", err)
	}
	for _, w := range want {
		if !strings.Contains(faults[0].Error(), w) {
			t.Errorf("got %v\nwithout %s", err, w)
		}
	}
}

// flip changes a byte of a blob in the storage of the registry.
func (w *world) flip(t *testing.T, blob []byte) {
	t.Helper()
	sum := fmt.Sprintf("%x", sha256.Sum256(blob))
	path := filepath.Join(filepath.Dir(w.files), "registry/docker/registry/v2/blobs/sha256", sum[:2], sum, "data")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)/2] ^= 1
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		data[len(data)/2] ^= 1
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Error(err)
		}
	})
}

func TestHiddenChartImagesAreNamed(t *testing.T) {
	w := chartWorld(t, nil)
	hidden := "chart hello, value sidecar.image: image registry.example.io/sidecar:4 is not carried"
	tests := map[string]struct {
		manifest, values string
		want             []string // of the warnings
		not              string
	}{
		"a value that is off":     {fromRegistry, "", []string{hidden, "Pod greetings/hello-test is a hook of Helm (test); it is left out", "ConfigMap greetings/hello-first is a hook of Helm (pre-install)", "looks for v1 Secret in the cluster"}, ""},
		"a value that is on":      {fromRegistry, "sidecar: {enabled: true}\n", nil, hidden},
		"an image that is named":  {fromRegistry + "image sidecar registry.example.io/sidecar:4\n", "", nil, hidden},
		"an argument of a pod":    {fromRegistry, "extraArgs: [\"--helper-image=registry.example.io/helper:5\"]\n", []string{"argument --helper-image: registry.example.io/helper:5 looks like an image and is not carried"}, ""},
		"an image of two sources": {fromRegistry + "image own registry.example.io/web:1\n", "", nil, "web:1"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			dir := addOn(t, "demo", test.manifest)
			writeFile(t, filepath.Join(dir, "charts/hello-values.yaml"), test.values)
			b := w.chartBuilder(t, openCache(t), false)
			locked, err := b.Lock(t.Context(), dir, builder.LockMissing)
			if err != nil {
				t.Fatal(err)
			}
			built := build(t, b, dir)
			_, _, linted, err := b.Charts(t.Context(), dir)
			if err != nil {
				t.Fatal(err)
			}
			for source, warnings := range map[string][]diag.Finding{"lock": locked.Warnings, "build": built.Warnings, "lint": linted} {
				text := diag.Errors(warnings).Error()
				for _, want := range test.want {
					if !strings.Contains(text, want) {
						t.Errorf("%s does not say: %s\n%s", source, want, text)
					}
				}
				if test.not != "" && strings.Contains(text, test.not) {
					t.Errorf("%s says\n%s", source, text)
				}
			}
		})
	}
}
