package install

import (
	"slices"
	"strings"
	"testing"

	"github.com/sealift/sealift/addon"
	"github.com/sealift/sealift/installer/journal/lifecycle"
)

// The owner on record decides what a finished install repeats.
func TestInstallRespectsOwners(t *testing.T) {
	channel := addon.Channel("kube-system", "flannel")
	for _, row := range []struct {
		what   string
		change func(*addon.Record)
		again  bool
		kept   string
	}{
		{"its own", func(*addon.Record) {}, false, ""},
		{"kept by a channel", func(r *addon.Record) { r.Owner, r.Version = channel, "0.27.0" }, false,
			"add-on flannel is kept by channel kube-system/flannel at version 0.27.0: its objects are left alone; 'sealift channel release kube-system/flannel' gives it back"},
		{"kept by another", func(r *addon.Record) { r.Owner = addon.Owner{Kind: "fleet", Name: "hub/west"} }, false, "add-on flannel is kept by fleet hub/west at version 1: its objects are left alone"},
		{"given back unchanged", func(r *addon.Record) { r.Released = &channel }, false, ""},
		{"given back with another version", func(r *addon.Record) { r.Released, r.Version, r.Digest = &channel, "0.27.0", "x" }, true, ""},
		{"given back as the channel renders it", func(r *addon.Record) { r.Released, r.Options = &channel, "" }, true, ""},
		{"of no bundle", func(r *addon.Record) { r.Name, r.Owner = "other", channel }, false, ""},
	} {
		t.Run(row.what, func(t *testing.T) {
			i := made(t, with(t, "kubernetes", "", "kubernetes"), with(t, "flannel", "", "flannel"))
			record := addon.Record{Name: "flannel", Ownership: addon.Ownership{Owner: addon.Installer(), Applied: i.applied("flannel").Applied}}
			row.change(&record)
			i.respect([]addon.Record{record})
			var again []string
			for _, step := range i.plan {
				if step.Again {
					again = append(again, step.ID+": "+step.Title)
				}
			}
			want := []string(nil)
			if row.again {
				want = []string{"flannel/install: run its hook flannel again, since channel kube-system/flannel gave it back", "cluster/ready: wait until nodes and add-ons are ready"}
			}
			if !slices.Equal(again, want) || strings.Join(i.Kept(), "\n") != row.kept {
				t.Errorf("again %q, kept %q", again, i.Kept())
			}
		})
	}
	if got := lifecycle.Digest("flannel", map[string]string{}); made(t, with(t, "flannel", "", "flannel")).applied("flannel").Options != got {
		t.Error("options are not recorded by the digest of what its hooks read")
	}
}
