package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/sealift/sealift/internal/releases"
	"github.com/sealift/sealift/internal/scratch"
	"github.com/sealift/sealift/internal/testing/containerd"
	"github.com/sealift/sealift/internal/testing/controlplane"
	"github.com/sealift/sealift/testgrid/lab/daemon"
	"github.com/sealift/sealift/testgrid/lab/mirror"
	"github.com/sealift/sealift/testgrid/lab/upstream"
)

// images share layers in pairs: kube-proxy and flannel have one base.
var images = []string{
	"registry.k8s.io/kube-proxy:" + controlplane.DefaultVersion(), "ghcr.io/flannel-io/flannel:v" + releases.Current("flannel").Version,
	"registry.k8s.io/kube-apiserver:" + controlplane.DefaultVersion(), "registry.k8s.io/kube-controller-manager:" + controlplane.DefaultVersion(),
}

// bench holds the registry, the tools and a working folder.
type bench struct {
	sealift          string
	crane, oras, ctr string
	containerd       *containerd.Containerd // of the case that is being measured
	registry, slow   string                 // host:port
	rounds           int
	dir              *scratch.Dir
	workshop         *upstream.Workshop
	mirror           *mirror.Mirror
	proxy            *slowProxy
	stores           []*served
	targets          []target
}

func newBench(sealift string, rounds int) (*bench, error) {
	path, err := filepath.Abs(sealift)
	if err != nil {
		return nil, err
	}
	dir, err := scratch.NewIn("/var/tmp")
	return &bench{sealift: path, rounds: rounds, dir: dir}, err
}

// open starts the mirror of the outside world and finds the tools, once.
func (b *bench) open(ctx context.Context) (err error) {
	if b.proxy != nil {
		return nil
	}
	if b.workshop, err = upstream.NewWorkshop(upstream.Options{Progress: say}); err != nil {
		return err
	}
	for _, tool := range []struct {
		name string
		path *string
	}{{"crane", &b.crane}, {"oras", &b.oras}, {"ctr", &b.ctr}} {
		if *tool.path, err = b.workshop.File(ctx, upstream.Program(tool.name)); err != nil {
			return err
		}
	}
	if b.mirror, err = serve(ctx, releases.Current("kubernetes")); err != nil {
		return err
	}
	b.registry = b.mirror.Registry()
	if b.proxy, err = newSlowProxy(b.registry); err != nil {
		return err
	}
	b.slow = b.proxy.address()
	return b.versions(ctx)
}

// serve starts a mirror of what add-ons with these releases of Kubernetes need.
func serve(ctx context.Context, kubernetes ...releases.Release) (*mirror.Mirror, error) {
	var versions []string
	for _, r := range kubernetes {
		versions = append(versions, "v"+r.Version)
	}
	o := mirror.Of(versions...)
	o.Progress = say
	return mirror.Serve(ctx, o)
}

func say(line string) { fmt.Fprintln(os.Stderr, line) }

func (b *bench) close() {
	for _, s := range b.stores {
		s.stop()
		s.close()
	}
	if b.proxy != nil {
		b.proxy.close()
	}
	if b.mirror != nil {
		_ = b.mirror.Close()
	}
	if b.dir != nil {
		_ = b.dir.Remove()
	}
}

// benchCase is a shell command that runs in an empty folder. Its files out* count as the result.
type benchCase struct {
	name    string
	prepare func(dir string) error
	script  string
	daemon  func() (pid int) // the process that does the work for the script, if there is one
	after   func()
	limits
}

type measure struct {
	wall, cpu    float64 // seconds
	peak, daemon int64   // in bytes, of the largest process and of the daemon
	bytes        int64   // of the result
}

func median(all []measure) measure {
	sorted := slices.SortedFunc(slices.Values(all), func(a, b measure) int { return cmp.Compare(a.wall, b.wall) })
	return sorted[len(sorted)/2]
}

func (b *bench) measure(ctx context.Context, c benchCase) (measure, error) {
	dir, err := os.MkdirTemp(b.dir.Path(), "case-")
	if err != nil {
		return measure{}, err
	}
	defer os.RemoveAll(dir)
	if c.after != nil {
		defer c.after()
	}
	if c.prepare != nil {
		if err := c.prepare(dir); err != nil {
			return measure{}, err
		}
	}
	if c.daemon != nil {
		if err := daemon.ForgetPeak(c.daemon()); err != nil {
			return measure{}, err
		}
	}
	syscall.Sync()
	// time(1) measures the peak, because a child of this process would inherit this process's peak.
	peak := filepath.Join(dir, "peak")
	cmd := exec.CommandContext(ctx, "time", "--format=%M", "--output="+peak, "bash", "-euo", "pipefail", "-c", c.script)
	cmd.Dir = dir
	var said strings.Builder
	cmd.Stderr = &said
	begin := time.Now()
	if err = cmd.Run(); err != nil {
		return measure{}, fmt.Errorf("%w: %s", err, said.String())
	}
	m := measure{wall: time.Since(begin).Seconds(), cpu: (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds()}
	if c.daemon != nil {
		if m.daemon, err = daemon.PeakMemory(c.daemon()); err != nil {
			return measure{}, err
		}
	}
	text, err := os.ReadFile(peak)
	if err != nil {
		return measure{}, err
	}
	kib, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return measure{}, err
	}
	m.peak = kib << 10
	m.bytes, err = results(dir)
	return m, err
}

// versions prints the versions of the compared tools.
func (b *bench) versions(ctx context.Context) error {
	for _, command := range [][]string{{b.sealift, "version"}, {b.crane, "version"}, {b.oras, "version"}, {"skopeo", "--version"}, {"gzip", "--version"}} {
		out, err := exec.CommandContext(ctx, command[0], command[1:]...).Output()
		if err != nil {
			return fmt.Errorf("version of %s: %w", command[0], err)
		}
		line, _, _ := strings.Cut(string(out), "\n")
		if line == "" || !strings.Contains(line, " ") {
			line = filepath.Base(command[0]) + " " + strings.TrimPrefix(upstream.Program("crane").Component, "crane-")
		}
		fmt.Println(line)
	}
	return nil
}

// shell runs a script without measuring it.
func (b *bench) shell(dir, script string) error {
	_, err := b.output(dir, script)
	return err
}

// output runs a script and returns its output.
func (b *bench) output(dir, script string) (string, error) {
	cmd := exec.Command("bash", "-euo", "pipefail", "-c", script)
	cmd.Dir = dir
	out, err := cmd.Output()
	return string(out), err
}

// results adds up the sizes of a case's result files.
func results(dir string) (int64, error) {
	names, err := filepath.Glob(filepath.Join(dir, "out*"))
	if err != nil {
		return 0, err
	}
	var total int64
	for _, name := range names {
		err = errors.Join(err, filepath.WalkDir(name, func(_ string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			info, err := entry.Info()
			if err == nil {
				total += info.Size()
			}
			return err
		}))
	}
	return total, err
}
