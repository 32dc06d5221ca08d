package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/sealift/sealift/internal/releases"
)

// olderMinor is the release of Kubernetes from which an upgrade is measured.
const olderMinor = "1.36.3"

// carry compares the bytes of the ways to carry a bundle: whole, lean, with parity, and as an addition to an earlier one, whose files or
// whose programs it leaves out.
func (b *bench) carry(ctx context.Context, measured func(title string) bool) error {
	newest := releases.Current("kubernetes").Version
	cluster := []string{"kubernetes/" + newest, "containerd/" + releases.Current("containerd").Version, "flannel/" + releases.Current("flannel").Version}
	if err := b.catalogue(ctx, b.dir.File("packages"), append(cluster, "kubernetes/"+olderMinor)...); err != nil {
		return err
	}
	for _, table := range []struct {
		title string
		cases func() ([]benchCase, error)
	}{
		{"carry: a bundle of Kubernetes " + newest + ", containerd and flannel; layers are compressed again before",
			func() ([]benchCase, error) { return b.forms(cluster) }},
		{"carry: Kubernetes " + olderMinor + " to " + newest + "; patches are made before", func() ([]benchCase, error) { return b.additions(ctx, olderMinor, newest) }},
	} {
		if !measured(table.title) {
			continue
		}
		cases, err := table.cases()
		if err != nil {
			return err
		}
		if err := b.table(ctx, table.title, cases); err != nil {
			return err
		}
	}
	return nil
}

// assembled is a case that makes a bundle of add-ons. Its first run, which fills the cache, is not measured.
func (b *bench) assembled(name string, addOns []string, flags string) (benchCase, error) {
	installer := b.dir.File("carry-" + strings.ReplaceAll(strings.Join(addOns, "-"), "/", "-") + ".yaml")
	if err := writeInstaller(installer, addOns...); err != nil {
		return benchCase{}, err
	}
	script := fmt.Sprintf("%s bundle -f %s --store %s --cache %s --out out %s >/dev/null", b.sealift, installer, b.dir.File("packages"), b.dir.File("install-cache"), flags)
	filled := false
	return benchCase{name: name, script: script, prepare: func(dir string) error {
		if filled {
			return nil
		}
		filled = true
		return b.shell(dir, script+"; rm -r out")
	}}, nil
}

// forms are the forms of one bundle.
func (b *bench) forms(addOns []string) ([]benchCase, error) {
	return b.assembledCases(addOns, [][2]string{{"whole", ""}, {"--lean", "--lean"}, {"--split 20M --parity 15%", "--split 20M --parity 15%"}})
}

// additions are the ways to bring a release of Kubernetes to a cluster that has another one.
func (b *bench) additions(ctx context.Context, from, to string) ([]benchCase, error) {
	earlier := b.dir.File("carry-" + from + ".tar.gz")
	installer := b.dir.File("carry-" + from + ".yaml")
	if err := writeInstaller(installer, "kubernetes/"+from); err != nil {
		return nil, err
	}
	if err := command(ctx, []string{b.sealift, "bundle", "-f", installer, "--store", b.dir.File("packages"), "--out", earlier}); err != nil {
		return nil, err
	}
	return b.assembledCases([]string{"kubernetes/" + to}, [][2]string{{"whole", ""}, {"--since", "--since " + earlier}, {"--since --patch", "--since " + earlier + " --patch"}})
}

func (b *bench) assembledCases(addOns []string, forms [][2]string) (cases []benchCase, err error) {
	for _, form := range forms {
		c, err := b.assembled(form[0], addOns, form[1])
		if err != nil {
			return nil, err
		}
		cases = append(cases, c)
	}
	return cases, nil
}
