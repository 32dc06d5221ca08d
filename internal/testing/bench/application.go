package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sealift/sealift/internal/testing/imagepackage"
	"github.com/sealift/sealift/testgrid/lab/host"
)

const (
	// application and a tag name images that no registry has: this many layers of so many bytes.
	application       = "registry.example.com/shop/model:"
	applicationLayers = 4
	applicationLayer  = 125_000_000
	applicationSize   = applicationLayers * applicationLayer
	// present waits until a node has an image.
	present = "for i in $(seq 3000); do ctr --namespace k8s.io images check name==%s | grep -qw complete && exit 0; sleep 0.2; done; exit 1"
)

// application compares the ways to bring an image to four nodes: imported on each from a disk, and added on the control plane, from where
// the kubelets of all four pull it at once. It counts what the hosts send. Each round has images of its own.
func (b *bench) application(ctx context.Context) (err error) {
	mirrored := strings.Replace(installerOf(demoAddOns()...), "containerd: {", "containerd: {mirror: true, ", 1)
	usb, err := b.usb(ctx, "usb-application", mirrored, demoAddOns())
	if err != nil {
		return err
	}
	images := b.dir.File("application")
	if err := os.MkdirAll(images, 0o755); err != nil {
		return err
	}
	c, err := newCluster(ctx, usb, images)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.remove(ctx, c.all)) }()
	workers, err := c.boot(ctx, 3, usb, images)
	if err != nil {
		return err
	}
	if _, err := c.joinAll(ctx, workers); err != nil {
		return err
	}
	for _, h := range workers { // until it offers what it has to others
		if _, err := timed(ctx, h, "for i in $(seq 600); do ss -Hltn | grep -q :6445 && exit 0; sleep 0.5; done; exit 1"); err != nil {
			return err
		}
	}
	var imported, pulled, sum, most []float64
	for n := range b.rounds {
		seconds, err := c.importEverywhere(ctx, images, fmt.Sprintf("import-%d", n))
		if err != nil {
			return err
		}
		imported = append(imported, seconds)
		seconds, times, err := c.pullEverywhere(ctx, images, fmt.Sprintf("pull-%d", n))
		if err != nil {
			return err
		}
		all := 0.0
		for _, one := range times {
			all += one
		}
		pulled, sum, most = append(pulled, seconds), append(sum, all), append(most, slices.Max(times))
	}
	t := newTable("\twall s\tsent, times its size\tby one node at most\ttimes the first's wall\t")
	fmt.Fprintf(t, "ctr images import on each at once, from a disk\t%.1f\t0\t0\t1.00\t\n", middle(imported))
	fmt.Fprintf(t, "sealift images add on one, pulled by four\t%.1f\t%.3f\t%.3f\t%.2f\t\n", middle(pulled), middle(sum), middle(most), middle(pulled)/middle(imported))
	b.aim("application: sent in all", middle(sum), 3.05, "x its size")
	b.aim("application: sent by one node", middle(most), 2, "x its size")
	return t.Flush()
}

// importEverywhere writes an image to a disk that all hosts have, and lets each import it.
func (c *cluster) importEverywhere(ctx context.Context, disk, tag string) (seconds float64, err error) {
	layout := filepath.Join(disk, tag)
	if err := imagepackage.WriteLayout(layout, application+tag, applicationLayers, applicationLayer); err != nil {
		return 0, err
	}
	if err := command(ctx, []string{"tar", "cf", layout + ".tar", "-C", layout, "."}); err != nil {
		return 0, err
	}
	began := time.Now()
	err = each(c.all, func(h *host.Host) error {
		_, err := timed(ctx, h, "ctr --namespace k8s.io images import /media/usb2/"+tag+".tar >/dev/null")
		return err
	})
	seconds = time.Since(began).Seconds()
	return seconds, errors.Join(err, c.forget(ctx, tag), os.RemoveAll(layout), os.Remove(layout+".tar"))
}

// pullEverywhere adds an image on the control plane and lets a pod on each node ask for it. The image has no program, so the pods do not
// start: the image is there. It returns how many times the image's size each host sent.
func (c *cluster) pullEverywhere(ctx context.Context, disk, tag string) (seconds float64, times []float64, err error) {
	layout := filepath.Join(disk, tag)
	if err := imagepackage.WriteLayout(layout, application+tag, applicationLayers, applicationLayer); err != nil {
		return 0, nil, err
	}
	before, err := sentBy(ctx, c.all)
	if err != nil {
		return 0, nil, err
	}
	script := "set -e; sealift images add /media/usb2/" + tag + " >/dev/null 2>&1\n"
	for _, h := range c.all {
		script += fmt.Sprintf(kubectl+"run model-%s --image %s --restart Never --overrides '{\"spec\":{\"nodeName\":\"%s\"}}'\n", h.Name(), application+tag, h.Name())
	}
	began := time.Now()
	if _, err := timed(ctx, c.first, script); err != nil {
		return 0, nil, err
	}
	if err := each(c.all, func(h *host.Host) error {
		_, err := timed(ctx, h, fmt.Sprintf(present, application+tag))
		return err
	}); err != nil {
		return 0, nil, err
	}
	seconds = time.Since(began).Seconds()
	after, err := sentBy(ctx, c.all)
	if err != nil {
		return 0, nil, err
	}
	for i := range after {
		times = append(times, float64(after[i]-before[i])/applicationSize)
	}
	if _, err := timed(ctx, c.first, kubectl+"delete pods --all --force --grace-period=0 2>&1"); err != nil {
		return 0, nil, err
	}
	return seconds, times, errors.Join(c.forget(ctx, tag), os.RemoveAll(layout))
}

// forget removes an image from all hosts under all its names, so that their disks do not fill.
func (c *cluster) forget(ctx context.Context, tag string) error {
	const names = "$(ctr --namespace k8s.io images list | awk -v of=%s '$1 == of {d = $3} {name[NR] = $1; digest[NR] = $3} END {for (n in name) if (digest[n] == d) print name[n]}')"
	return each(c.all, func(h *host.Host) error {
		_, err := timed(ctx, h, fmt.Sprintf("ctr --namespace k8s.io images remove --sync "+names, application+tag))
		return err
	})
}
