package packages

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sealift/sealift/internal/testing/short"
)

func TestPackagesInterruptedByPowerCutAreReinstalled(t *testing.T) {
	repository, settings := t.TempDir(), t.TempDir()
	for _, deb := range []string{"net_6.4_all.deb", "kmod_30+2-1_amd64.deb", "half_1_amd64.deb", "mine_1_amd64.deb", "other_2_amd64.deb", "well_1_amd64.deb"} {
		write(t, filepath.Join(repository, deb), "")
	}
	for name, content := range map[string]string{"services": "", "rpc": "rpc", "meant": "", "kmod": "", "mine": "", "other": "", "old": ""} {
		write(t, filepath.Join(settings, name), content)
	}
	list := strings.ReplaceAll(`ii 	net	6.4
 DIR/services f6183055fd949f9c53d49ee620f85d01
 DIR/rpc 21947aae2ea47a87606a95250a973e4a
 DIR/gone 21947aae2ea47a87606a95250a973e4a
 DIR/meant d41d8cd98f00b204e9800998ecf8427e
 DIR/old 21947aae2ea47a87606a95250a973e4a obsolete

iU 	kmod	1:30+2-1
 DIR/kmod newconffile

iHR	half:amd64	1

ii 	mine	1
 DIR/mine 10424b9e13d2035514777ef76770cf64

ii 	other	1
 DIR/other 10424b9e13d2035514777ef76770cf64

pc 	well	1

`, "DIR", settings)
	a := APT{Repositories: []string{repository}, Before: map[string]string{"mine": "1"}}
	again, err := a.halfDone(list)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, name := range again {
		names = append(names, filepath.Base(name))
	}
	if want := []string{"net_6.4_all.deb", "kmod_30+2-1_amd64.deb", "half_1_amd64.deb"}; !slices.Equal(names, want) {
		t.Errorf("unpacks %v, want %v", names, want)
	}
	left, err := filepath.Glob(filepath.Join(settings, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range left {
		left[i] = filepath.Base(name)
	}
	if want := []string{"meant", "mine", "old", "other", "rpc"}; !slices.Equal(left, want) {
		t.Errorf("left are %v, want %v", left, want)
	}
}

func write(t *testing.T, name, content string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestDNFRestoresDamagedFiles(t *testing.T) {
	short.Root(t, "installing packages")
	var said bytes.Buffer
	d := DNF{Dir: t.TempDir(), Repositories: []string{yumRepository(t)}, Root: t.TempDir(), Output: &said}
	file := filepath.Join(d.Root, "etc/tool.conf")
	for i, row := range []struct {
		content, want string
		before        map[string]string
	}{
		{"", "tool\n", nil},
		{"mine\n", "mine\n", nil},
		{"", "", map[string]string{"tool.noarch": "0:1.0-1"}},
	} {
		if err := d.Install(t.Context(), []string{"tool"}); err != nil {
			t.Fatalf("%v\n%s", err, said.String())
		}
		write(t, file, row.content)
		d.Before = row.before
		if err := d.Install(t.Context(), []string{"tool"}); err != nil {
			t.Fatalf("%v\n%s", err, said.String())
		}
		if data, err := os.ReadFile(file); err != nil || string(data) != row.want {
			t.Errorf("%d: the file is %q, %v, want %q\n%s", i, data, err, row.want, said.String())
		}
	}
}
