// Command bench measures Sealift against the tools that people use today, on the same images from the same registry, in one
// run on one machine. It prints wall time, CPU time, peak memory and bytes; it decides nothing.
//
//	go run ./internal/testing/bench -sealift bin/sealift
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"text/tabwriter"

	"github.com/sealift/sealift/internal/releases"
)

func main() {
	sealift := flag.String("sealift", "bin/sealift", "the sealift to measure")
	rounds := flag.Int("rounds", 3, "how often each case runs; the median counts")
	clusters := flag.Int("clusters", 2000, "how many clusters the fleet has")
	only := flag.String("only", "", "measure only the tables whose titles begin with this")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, *sealift, *rounds, *clusters, *only)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, sealift string, rounds, clusters int, only string) error {
	b, err := newBench(sealift, rounds)
	if err != nil {
		return err
	}
	defer b.close()
	measured := func(title string) bool { return strings.HasPrefix(title, only) }
	if only != "" && measured("fleet") {
		return b.fleet(ctx, clusters)
	}
	if !strings.HasPrefix(only, "serve") {
		if err := b.registryTables(ctx, measured); err != nil {
			return err
		}
	}
	if err := b.serveTables(ctx, measured); err != nil {
		return err
	}
	if measured("carry") || strings.HasPrefix(only, "carry") {
		if err := b.carry(ctx, measured); err != nil {
			return err
		}
	}
	if measured("apply") {
		if err := b.applies(ctx); err != nil {
			return err
		}
	}
	var catalogue []string
	for _, name := range []string{"containerd", "kubernetes", "flannel", "local-path-provisioner", "metrics-server"} {
		catalogue = append(catalogue, name+"/"+releases.Current(name).Version)
	}
	for _, table := range []struct {
		title  string
		addOns []string
	}{{"install: a node with its network", catalogue[:3]}, {"install: the whole catalogue", catalogue}} {
		if !measured(table.title) {
			continue
		}
		if err := b.install(ctx, table.title, table.addOns...); err != nil {
			return err
		}
	}
	if only != "" {
		return nil
	}
	return b.fleet(ctx, clusters)
}

// registryTables are about images that a registry has.
func (b *bench) registryTables(ctx context.Context, measured func(title string) bool) error {
	if err := b.openRegistry(ctx); err != nil {
		return err
	}
	if err := b.versions(ctx); err != nil {
		return err
	}
	for _, table := range []struct {
		title string
		cases []benchCase
	}{
		{"build: a package of 4 images with shared layers, warm registry, cold cache", b.builds(b.registry, "plain")},
		{"build: the same, 50 ms latency and 20 MB/s per connection", b.builds(b.slow, "slow")},
		{"rebuild", b.rebuilds()},
		{"bundle: the package assembled from a folder", b.bundles()},
		{"images: the package into an empty containerd", b.loads(ctx)},
	} {
		if !measured(table.title) {
			continue
		}
		if err := b.table(ctx, table.title, table.cases); err != nil {
			return err
		}
	}
	if measured("resume") {
		return b.resume(ctx)
	}
	return nil
}

// serveTables are about a server before each kind of store.
func (b *bench) serveTables(ctx context.Context, measured func(title string) bool) error {
	tables := []struct {
		title string
		run   func(context.Context, *served, string) error
	}{
		{"serve: assembly of a bundle from ", b.assembly},
		{"serve: first byte, from ", b.firstByte},
		{"serve: downloads, from ", b.downloads},
		{"serve: requests, before ", b.mix},
	}
	var stores []*served
	defer func() { closeServed(stores) }()
	for _, table := range tables {
		for n, kind := range servedKinds() {
			if !measured(table.title + kind) {
				continue
			}
			if stores == nil {
				var err error
				if stores, err = b.serves(ctx); err != nil {
					return err
				}
			}
			if err := table.run(ctx, stores[n], table.title+kind); err != nil {
				return fmt.Errorf("%s%s: %w", table.title, kind, err)
			}
		}
	}
	return nil
}

// table runs the cases in turn, round by round, so that load on the machine affects all of them equally, and prints their
// medians.
func (b *bench) table(ctx context.Context, title string, cases []benchCase) error {
	results := make([][]measure, len(cases))
	for range b.rounds {
		for i, c := range cases {
			m, err := b.measure(ctx, c)
			if err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			results[i] = append(results[i], m)
		}
	}
	fmt.Printf("\n%s\n", title)
	t := tabwriter.NewWriter(os.Stdout, 2, 0, 3, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "\twall s\tcpu s\tpeak MiB\tMB\ttimes the first's wall\ttimes the first's bytes\t")
	first := median(results[0])
	for i, c := range cases {
		m := median(results[i])
		bytes := "-"
		if first.bytes > 0 {
			bytes = fmt.Sprintf("%.2f", float64(m.bytes)/float64(first.bytes))
		}
		fmt.Fprintf(t, "%s\t%.2f\t%.2f\t%d\t%.1f\t%.2f\t%s\t\n", c.name, m.wall, m.cpu, m.peak>>20, float64(m.bytes)/1e6, m.wall/first.wall, bytes)
	}
	return t.Flush()
}
