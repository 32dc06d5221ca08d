package install

import (
	"strings"
	"testing"
	"time"

	"github.com/sealift/sealift/installer/cluster/service"
	"github.com/sealift/sealift/installer/recovery/snapshot"
	"github.com/sealift/sealift/internal/fips"
	"github.com/sealift/sealift/internal/testing/fixture"
	"github.com/sealift/sealift/spec"
)

func TestInstallerConfiguresSnapshots(t *testing.T) {
	fixture.Unapproved(t, fips.Snapshots)
	_, key, err := snapshot.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		text string
		want service.Snapshots
		err  string
	}{
		{"", service.Snapshots{}, ""},
		{"key: " + key, service.Snapshots{Every: 24 * time.Hour, Keep: 7, Store: "/var/backups/sealift", Key: key}, ""},
		{"every: 6h, keep: 3, store: 's3://backups/one', key: " + key, service.Snapshots{Every: 6 * time.Hour, Keep: 3, Store: "s3://backups/one", Key: key}, ""},
		{"volumes: true, key: " + key, service.Snapshots{Every: 24 * time.Hour, Keep: 7, Store: "/var/backups/sealift", Key: key, Volumes: true}, ""},
		{"every: 6h", service.Snapshots{}, "snapshots.key"},
		{"key: age1x", service.Snapshots{}, "snapshots.key"},
		{"key: /etc/passwd", service.Snapshots{}, "snapshots.key"},
		{"every: 5s, key: " + key, service.Snapshots{}, "snapshots.every"},
		{"every: daily, key: " + key, service.Snapshots{}, "snapshots.every"},
		{"keep: 0, key: " + key, service.Snapshots{}, "snapshots.keep"},
		{"store: backups, key: " + key, service.Snapshots{}, "snapshots.store"},
	} {
		i, err := spec.Parse("i", strings.NewReader("apiVersion: sealift.dev/v1\nkind: Installer\nmetadata: {name: x}\nspec:\n  snapshots: {"+row.text+"}\n"))
		if err != nil {
			t.Fatal(err)
		}
		got, wanted, err := readSnapshots(i.Section("snapshots").Options)
		switch {
		case row.err != "" && (err == nil || !strings.Contains(err.Error(), row.err)):
			t.Errorf("%s: %v", row.text, err)
		case row.err == "" && (err != nil || got != row.want || wanted != (row.text != "")):
			t.Errorf("%s: %+v, %t, %v", row.text, got, wanted, err)
		}
	}
}
