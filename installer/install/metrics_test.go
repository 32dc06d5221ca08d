package install

import (
	"strings"
	"testing"

	"github.com/sealift/sealift/installer/host/textfile"
	"github.com/sealift/sealift/spec"
)

func TestInstallerConfiguresMetrics(t *testing.T) {
	for text, want := range map[string]string{
		"": textfile.DefaultFolder, "folder: /var/lib/prometheus/node-exporter/": "/var/lib/prometheus/node-exporter",
		"disabled: true": "", "disabled: false": textfile.DefaultFolder, "folder: metrics": "error", "folder: /": "error", "folder: /*": "error", "folder: /..": "error",
	} {
		i, err := spec.Parse("i", strings.NewReader("apiVersion: sealift.dev/v1\nkind: Installer\nmetadata: {name: x}\nspec:\n  metrics: {"+text+"}\n"))
		if err != nil {
			t.Fatal(err)
		}
		got, err := metricsFolder(i.Section("metrics").Options)
		if err != nil && strings.Contains(err.Error(), "metrics.folder") {
			got = "error"
		}
		if got != want {
			t.Errorf("%s: %q, %v, want %q", text, got, err, want)
		}
	}
}
