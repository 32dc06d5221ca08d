package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/sealift/sealift/internal/releases"
)

// carry compares the bytes of the ways to carry a bundle: whole, lean, with parity, and as an addition to an earlier one, whose files or
// whose programs it leaves out.
func (b *bench) carry(ctx context.Context, measured func(title string) bool) error {
	newest := releases.Current("kubernetes")
	older := newest.Before().Version
	cluster := []string{"kubernetes/" + newest.Version, "containerd/" + releases.Current("containerd").Version, "flannel/" + releases.Current("flannel").Version}
	if err := b.catalogue(ctx, b.dir.File("packages"), append(cluster, "kubernetes/"+older)...); err != nil {
		return err
	}
	for _, table := range []struct {
		title string
		cases func() ([]benchCase, error)
	}{
		{"carry: a bundle of Kubernetes " + newest.Version + ", containerd and flannel; layers are compressed again before",
			func() ([]benchCase, error) { return b.forms(cluster) }},
		{"carry: an upgrade of that cluster from Kubernetes " + older + "; patches are made before", func() ([]benchCase, error) { return b.additions(ctx, older, cluster) }},
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

// additions are the ways to bring another release of Kubernetes, the first of these add-ons, to a cluster of these add-ons.
func (b *bench) additions(ctx context.Context, from string, addOns []string) ([]benchCase, error) {
	earlier, installer := b.dir.File("carry-earlier.tar.gz"), b.dir.File("carry-earlier.yaml")
	if err := writeInstaller(installer, append([]string{"kubernetes/" + from}, addOns[1:]...)...); err != nil {
		return nil, err
	}
	if err := command(ctx, []string{b.sealift, "bundle", "-f", installer, "--store", b.dir.File("packages"), "--out", earlier}); err != nil {
		return nil, err
	}
	return b.assembledCases(addOns, [][2]string{{"--since", "--since " + earlier}, {"--since --patch", "--since " + earlier + " --patch"}})
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
