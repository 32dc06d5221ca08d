// Command bench measures Sealift against the tools that people use today, on the same images from the same registry, in one
// run on one machine. It prints wall time, CPU time, peak memory and bytes, and at the end what has a target. It decides nothing.
//
//	go run ./internal/testing/bench -sealift bin/sealift
//	go run ./internal/testing/bench -sealift bin/sealift -only push,images
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/sealift/sealift/internal/releases"
)

func main() {
	sealift := flag.String("sealift", "bin/sealift", "the sealift to measure")
	rounds := flag.Int("rounds", 5, "how often each case runs; the median counts")
	clusters := flag.Int("clusters", 2000, "how many clusters the fleet has")
	only := flag.String("only", "", "measure only the tables whose titles begin with one of these, separated by commas")
	list := flag.Bool("list", false, "print the titles of the tables, and measure nothing")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, *sealift, *rounds, *clusters, *only, *list)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, sealift string, rounds, clusters int, only string, list bool) error {
	b, err := newBench(sealift, rounds)
	if err != nil {
		return err
	}
	defer b.close()
	found := false
	for _, t := range b.tables(clusters) {
		if !slices.ContainsFunc(strings.Split(only, ","), func(one string) bool { return strings.HasPrefix(t.title, one) }) {
			continue
		}
		found = true
		if list {
			fmt.Println(t.title)
			continue
		}
		heading(t.title)
		if err := t.run(ctx); err != nil {
			return fmt.Errorf("%s: %w", t.title, err)
		}
	}
	if !found {
		return fmt.Errorf("no table has a title that begins with %q; see -list", only)
	}
	return b.printTargets()
}

// heading prints a title, and how busy the machine was before.
func heading(title string) {
	average, err := os.ReadFile("/proc/loadavg")
	load, _, _ := strings.Cut(string(average), " ")
	if err != nil {
		load = "unknown"
	}
	fmt.Printf("\n%s\n   (load of the last minute: %s)\n", title, load)
}

// table is one comparison. run prepares, measures and prints it.
type table struct {
	title string
	run   func(context.Context) error
}

// tables lists everything that can be measured. Those at the end need hosts of the lab, and the most time.
func (b *bench) tables(clusters int) []table {
	kubernetes := releases.Current("kubernetes")
	newer := kubernetes.Before()
	older := newer.Before()
	unpatched, patched := patchReleases()
	list := []table{
		b.compare("build: a package of 4 images with shared layers, warm registry, cold cache, on the disk", func(context.Context) ([]benchCase, error) {
			return b.builds(b.registry, "plain"), nil
		}),
		b.compare("build: the same, 50 ms latency and 20 MB/s per connection", func(context.Context) ([]benchCase, error) { return b.builds(b.slow, "slow"), nil }),
		b.compare("rebuild", func(context.Context) ([]benchCase, error) { return b.rebuilds(), nil }),
		{"resume: a build that is killed when half of its bytes have arrived", b.resume},
		b.compare("bundle: the package assembled from a folder", func(context.Context) ([]benchCase, error) { return b.bundles(), nil }),
		b.compare("images: those of the demo's bundle into an empty containerd", b.loads),
		b.compare("push: the images of the demo's bundle to an empty registry", b.pushes),
		b.compare("carry: the demo's bundle; layers are compressed again before", b.forms),
		b.compare("carry: Kubernetes "+newer.Version+" for a cluster with "+older.Version+"; patches are made before", func(ctx context.Context) ([]benchCase, error) {
			return b.additions(ctx, older, newer)
		}),
		b.compare("carry: the patch release Kubernetes "+patched.Version+" for a cluster with "+unpatched.Version, func(ctx context.Context) ([]benchCase, error) {
			return b.patchRelease(ctx, unpatched, patched)
		}),
	}
	list = append(append(list, b.serveTables()...), b.applyTables()...)
	demo := demoAddOns()
	return append(list,
		table{"install: a node with its network, on a host without a network", func(ctx context.Context) error { return b.install(ctx, demo[:3]) }},
		table{"install: the whole demo, on a host without a network", func(ctx context.Context) error { return b.install(ctx, demo) }},
		table{"application: an image of 500 MB on four nodes", b.application},
		table{"joins: ten hosts at once", b.joins},
		table{"fleet: many clusters, fake agents, one API server", func(ctx context.Context) error { return b.fleet(ctx, clusters) }},
	)
}

// compare is a table of cases that may use the registry.
func (b *bench) compare(title string, cases func(context.Context) ([]benchCase, error)) table {
	return table{title, func(ctx context.Context) error {
		if err := b.open(ctx); err != nil {
			return err
		}
		list, err := cases(ctx)
		if err != nil {
			return err
		}
		return b.measureAll(ctx, title, list)
	}}
}

// serveTables are about a server before each kind of store.
func (b *bench) serveTables() (list []table) {
	for _, t := range []struct {
		title string
		run   func(context.Context, *served) error
	}{
		{"serve: assembly of a bundle from ", b.assembly},
		{"serve: first byte, from ", b.firstByte},
		{"serve: downloads, from ", b.downloads},
		{"serve: requests, before ", b.mix},
	} {
		for n, kind := range servedKinds() {
			list = append(list, table{t.title + kind, func(ctx context.Context) error {
				if err := b.serve(ctx); err != nil {
					return err
				}
				return t.run(ctx, b.stores[n])
			}})
		}
	}
	return list
}

// measureAll runs the cases in turn, round by round, so that load on the machine affects all of them equally, and prints their
// medians.
func (b *bench) measureAll(ctx context.Context, title string, cases []benchCase) error {
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
	t := newTable("\twall s\tcpu s\tpeak MiB\tof its daemon\tMB\ttimes the first's wall\ttimes the first's bytes\t")
	first := median(results[0])
	for i, c := range cases {
		m := median(results[i])
		bytes, daemon := "-", "-"
		if first.bytes > 0 {
			bytes = fmt.Sprintf("%.2f", float64(m.bytes)/float64(first.bytes))
		}
		if m.daemon > 0 {
			daemon = fmt.Sprint(m.daemon >> 20)
		}
		fmt.Fprintf(t, "%s\t%.2f\t%.2f\t%d\t%s\t%.1f\t%.2f\t%s\t\n", c.name, m.wall, m.cpu, m.peak>>20, daemon, float64(m.bytes)/1e6, m.wall/first.wall, bytes)
		b.aimAtCase(title, c, m, first)
	}
	return t.Flush()
}

// newTable starts a table on standard output with its header.
func newTable(header string) *tabwriter.Writer {
	t := tabwriter.NewWriter(os.Stdout, 2, 0, 3, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, header)
	return t
}
