// Package upstream builds what the outside world offers (Kubernetes binaries, containerd, images, …) from Go modules and
// Debian packages, so that the lab can serve it under its real names.
//
// The offer is data: tables of components, files and images (catalogue.go). A Workshop builds components on demand and
// keeps them in the lab's cache by name, version and recipe.
package upstream

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sealift/sealift/testgrid/lab/cache"
	"github.com/sealift/sealift/testgrid/lab/debian"
)

// recipeFormat is part of every cache key. Raise it when a change in this package changes the result of recipes.
const recipeFormat = 1

// Component is one thing to build: a folder of files.
type Component struct {
	Name    string
	Version string
	Recipe  Recipe
	Arch    string // arm64; empty for amd64, and for files that are the same for both
}

// ID is the component's name in the tables, such as "etcd-v3.6.8", or "etcd-v3.6.8-arm64".
func (c Component) ID() string {
	id := c.Name + "-" + c.Version
	if c.Arch != "" {
		id += "-" + c.Arch
	}
	return id
}

// Recipe describes how to build a component. A recipe is plain data, because its JSON form is part of the cache key.
type Recipe interface {
	// Needs lists the components that must exist first.
	Needs() []string
	// Tools lists the Debian packages whose programs the recipe runs.
	Tools() []debian.Tool
	// Make fills dir.
	Make(ctx context.Context, w *Workshop, dir string) error
}

// compiler is a recipe that downloads and then compiles. Downloads overlap with each other and with a compile. Only one
// component is compiled at a time: a second compile would slow both down or run out of memory.
type compiler interface {
	// download fetches everything that Make needs from the network.
	download(ctx context.Context) error
}

// Options of a Workshop. The zero value makes the lab's own catalogue in the default cache, in silence.
type Options struct {
	CacheDir string            // default cache.DefaultPath()
	Progress func(line string) // one line per event, from one goroutine at a time
}

// Workshop builds components. Many goroutines may use it; one compile runs at a time on a machine.
type Workshop struct {
	cache      *cache.Dir
	components map[string]Component
	progress   *progress
}

// NewWorkshop opens the cache and loads the catalogue.
func NewWorkshop(o Options) (*Workshop, error) {
	dir, err := cache.Open(o.CacheDir)
	if err != nil {
		return nil, err
	}
	w := &Workshop{cache: dir, components: map[string]Component{}, progress: newProgress(o.Progress)}
	all := Components()
	for _, c := range append(all, foreign(all)...) {
		w.components[c.ID()] = c
	}
	return w, nil
}

// Cache is where components are kept.
func (w *Workshop) Cache() *cache.Dir { return w.cache }

// Path returns the folder of a component. It builds the component and its dependencies if they are missing.
func (w *Workshop) Path(ctx context.Context, id string) (string, error) {
	c, ok := w.components[id]
	if !ok {
		return "", fmt.Errorf("the lab knows no component %q", id)
	}
	key, err := w.key(c)
	if err != nil {
		return "", err
	}
	if w.cache.Has(key) {
		return w.cache.Path(key), nil
	}
	if err := debian.CheckTools(c.Recipe.Tools()); err != nil {
		return "", fmt.Errorf("make %s: %w", id, err)
	}
	for _, need := range c.Recipe.Needs() {
		if _, err := w.Path(ctx, need); err != nil {
			return "", fmt.Errorf("make %s: %w", id, err)
		}
	}
	return w.cache.Ensure(ctx, key, func(ctx context.Context, dir string) error {
		return w.make(ctx, c, dir)
	})
}

func (w *Workshop) make(ctx context.Context, c Component, dir string) (err error) {
	task := w.progress.begin(c.ID())
	defer func() { task.end(err) }()
	compiles, ok := c.Recipe.(compiler)
	if m, isModule := c.Recipe.(GoModule); !ok || isModule && len(m.Commands) == 0 { // files alone need no compiler
		task.stage("making")
		return c.Recipe.Make(ctx, w, dir)
	}
	task.stage("downloading")
	if err := compiles.download(ctx); err != nil {
		return err
	}
	task.stage("waiting for the compiler")
	unlock, err := w.cache.Lock(ctx, "compile")
	if err != nil {
		return err
	}
	defer unlock()
	task.stage(compiling)
	return c.Recipe.Make(ctx, w, dir)
}

// sideBySide is the maximum number of components in progress. All but one of them download or wait.
const sideBySide = 4

// Build builds the components that the cache lacks, with their dependencies, in parallel, and returns their folders. It also
// reports what is in progress and for how long.
func (w *Workshop) Build(ctx context.Context, ids ...string) (folders map[string]string, err error) {
	order, err := w.missing(ids)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	defer w.progress.plan(ctx, w.costs(order))()
	var group errgroup.Group
	group.SetLimit(sideBySide)
	made := make(map[string]chan struct{}, len(order))
	for _, id := range order {
		made[id] = make(chan struct{})
	}
	for _, id := range order { // dependencies precede a component, so that nobody waits for one without a slot
		group.Go(func() error {
			for _, need := range w.components[id].Recipe.Needs() {
				if done, ok := made[need]; ok {
					select {
					case <-done:
					case <-ctx.Done():
						return ctx.Err()
					}
				}
			}
			if _, err := w.Path(ctx, id); err != nil {
				stop(err)
				return err
			}
			close(made[id])
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, context.Cause(ctx) // the first failure: those who waited for it may have returned before it
	}
	folders = make(map[string]string, len(ids))
	for _, id := range ids {
		if folders[id], err = w.Path(ctx, id); err != nil {
			return nil, err
		}
	}
	return folders, nil
}

func (w *Workshop) costs(ids []string) map[string]time.Duration {
	costs := make(map[string]time.Duration, len(ids))
	for _, id := range ids {
		costs[id] = w.components[id].cost()
	}
	return costs
}

// missing lists the components that the cache lacks, dependencies first.
func (w *Workshop) missing(ids []string) (order []string, err error) {
	seen := make(map[string]bool)
	var visit func(id string) error
	visit = func(id string) error {
		if seen[id] {
			return nil
		}
		seen[id] = true
		c, ok := w.components[id]
		if !ok {
			return fmt.Errorf("the lab knows no component %q", id)
		}
		key, err := w.key(c)
		if err != nil || w.cache.Has(key) {
			return err
		}
		for _, need := range c.Recipe.Needs() {
			if err := visit(need); err != nil {
				return err
			}
		}
		order = append(order, id)
		return nil
	}
	for _, id := range ids {
		if err := visit(id); err != nil {
			return nil, err
		}
	}
	return order, nil
}

// CheckTools fails if this machine lacks Debian packages that are needed to build these components and their dependencies.
// Cached components need none.
func (w *Workshop) CheckTools(ids ...string) error {
	var tools []debian.Tool
	for _, id := range ids {
		c, ok := w.components[id]
		if !ok {
			return fmt.Errorf("the lab knows no component %q", id)
		}
		key, err := w.key(c)
		if err != nil {
			return err
		}
		if w.cache.Has(key) {
			continue
		}
		tools = append(tools, c.Recipe.Tools()...)
		for _, need := range c.Recipe.Needs() {
			tools = append(tools, w.components[need].Recipe.Tools()...)
		}
	}
	return debian.CheckTools(tools)
}

// File returns the path of one file of a component, made when it is missing.
func (w *Workshop) File(ctx context.Context, f FileOf) (string, error) {
	dir, err := w.Path(ctx, f.Component)
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, f.Name)
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("component %s has no file %s: %w", f.Component, f.Name, err)
	}
	return path, nil
}

// key returns the component's folder in the cache: its name and version for people, and a hash of its recipe and
// dependencies.
func (w *Workshop) key(c Component) (string, error) {
	sum, err := w.fingerprint(c)
	if err != nil {
		return "", err
	}
	return c.ID() + "-" + sum[:10], nil
}

func (w *Workshop) fingerprint(c Component) (string, error) {
	recipe, err := json.Marshal(c.Recipe)
	if err != nil {
		return "", fmt.Errorf("describe the recipe of %s: %w", c.ID(), err)
	}
	h := sha256.New()
	fmt.Fprintf(h, "%d %T %s\n", recipeFormat, c.Recipe, recipe)
	_, _ = io.WriteString(h, os.Getenv("GOFIPS140")) // the module for FIPS 140-3 that Go programs are linked with (Makefile)
	for _, need := range c.Recipe.Needs() {
		n, ok := w.components[need]
		if !ok {
			return "", fmt.Errorf("component %s needs the unknown component %q", c.ID(), need)
		}
		sum, err := w.fingerprint(n)
		if err != nil {
			return "", err
		}
		_, _ = io.WriteString(h, sum)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// FileOf names one file of a component.
type FileOf struct {
	Component string // its ID
	Name      string // slash-separated path in the component's folder
}

// run runs a program and returns its output. Errors contain the last lines of its stderr.
func run(ctx context.Context, cmd *exec.Cmd) ([]byte, error) {
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return nil, fmt.Errorf("run %s: %w\n%s", strings.Join(cmd.Args, " "), err, lastLines(stderr.String(), 20))
	}
	return []byte(stdout.String()), nil
}

func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
