package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"time"

	analyze "github.com/replicatedhq/troubleshoot/pkg/analyze"
	"github.com/replicatedhq/troubleshoot/pkg/apis/troubleshoot/v1beta2"
	"github.com/replicatedhq/troubleshoot/pkg/collect"
	"github.com/replicatedhq/troubleshoot/pkg/constants"
	"github.com/replicatedhq/troubleshoot/pkg/loader"
	"github.com/replicatedhq/troubleshoot/pkg/version"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/sealift/sealift/preflight"
)

// requestTime bounds each request to the cluster: on a node that needs support, the API server may not answer.
const requestTime = 30 * time.Second

// gather collects into dir what the specifications name, analyzes it, and redacts every file in dir, including older ones, also by
// their Redactors. A failed collector leaves a file in collector-errors. afterCollection is ignored: it would upload the bundle.
func gather(ctx context.Context, dir, kubeconfig string, kinds *loader.TroubleshootKinds) ([]preflight.Result, error) {
	if dir == "" {
		return nil, errors.New("collect needs --dir")
	}
	g, specs := gathering{ctx: ctx, dir: dir}, kinds.SupportBundlesV1Beta2
	g.host(specs)
	if kubeconfig != "" {
		g.cluster(kubeconfig, specs)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := g.redact(kinds.RedactorsV1Beta2); err != nil {
		return nil, fmt.Errorf("redact what was collected: %w", err)
	}
	if err := g.version(); err != nil {
		return nil, err
	}
	return g.analyze(specs), ctx.Err()
}

type gathering struct {
	ctx context.Context
	dir string
}

func (g gathering) host(specs []v1beta2.SupportBundle) {
	seen := map[string]bool{}
	for _, spec := range specs {
		for _, c := range spec.Spec.HostCollectors {
			key, _ := json.Marshal(c)
			collector, known := collect.GetHostCollector(c, g.dir)
			if seen[string(key)] || !known {
				continue
			}
			seen[string(key)] = true
			g.run(collector.Title(), collector.IsExcluded, collector.Collect)
		}
	}
}

// cluster runs the collectors that ask the API server. Without an answer there is nothing to run.
func (g gathering) cluster(kubeconfig string, specs []v1beta2.SupportBundle) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	var client *kubernetes.Clientset
	if err == nil {
		config.Timeout, config.QPS, config.Burst = requestTime, 100, 100
		client, err = kubernetes.NewForConfig(config)
	}
	if err == nil {
		_, err = client.ServerVersion()
	}
	if err != nil {
		g.failed("cluster", err)
		return
	}
	var wanted []*v1beta2.Collect
	for _, spec := range specs {
		wanted = append(wanted, spec.Spec.Collectors...)
	}
	for _, c := range g.collectors(collect.EnsureClusterResourcesFirst(collect.DedupCollectors(wanted)), config, client) {
		g.run(c.Title(), c.IsExcluded, func(progress chan<- any) (map[string][]byte, error) { return c.Collect(progress) })
	}
}

// collectors makes the collectors of a cluster, and one of those that can be merged.
func (g gathering) collectors(wanted []*v1beta2.Collect, config *rest.Config, client kubernetes.Interface) []collect.Collector {
	var kinds []reflect.Type
	byKind := map[reflect.Type][]collect.Collector{}
	for _, w := range wanted {
		made, ok := collect.GetCollector(w, g.dir, "", config, client, nil)
		c, isCollector := made.(collect.Collector)
		if !ok || !isCollector {
			continue
		}
		kind := reflect.TypeOf(c)
		if !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
		byKind[kind] = append(byKind[kind], c)
	}
	var all []collect.Collector
	for _, kind := range kinds {
		same := byKind[kind]
		if mergeable, ok := same[0].(collect.MergeableCollector); ok {
			if merged, err := mergeable.Merge(same); err == nil {
				same = merged
			}
		}
		all = append(all, same...)
	}
	return collect.EnsureCopyLast(all)
}

func (g gathering) run(title string, excluded func() (bool, error), work func(chan<- any) (map[string][]byte, error)) {
	if g.ctx.Err() != nil {
		return
	}
	if skip, err := excluded(); skip || err != nil {
		return
	}
	if _, err := bounded(g.ctx, title, work); err != nil {
		g.failed(title, err)
	}
}

// failed records a failure in the bundle, since the failure may be the cause that the reader looks for.
func (g gathering) failed(title string, failure error) {
	fmt.Fprintf(os.Stderr, "collector %s: %v\n", title, failure)
	dir := filepath.Join(g.dir, "collector-errors")
	err := os.MkdirAll(dir, 0o700)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, url.PathEscape(title)+".txt"), []byte(failure.Error()+"\n"), 0o600)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "collector %s: %v\n", title, err)
	}
}

// redact puts every regular file through Troubleshoot's redactors, and these.
func (g gathering) redact(redactors []v1beta2.Redactor) error {
	var own []*v1beta2.Redact
	for _, r := range redactors {
		own = append(own, r.Spec.Redactors...)
	}
	files := collect.NewResult()
	err := filepath.WalkDir(g.dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		name, err := filepath.Rel(g.dir, path)
		files[name] = nil // it is read from the disk
		return err
	})
	if err != nil {
		return err
	}
	return collect.RedactResult(g.dir, files, own)
}

// version writes the file by which Troubleshoot's own tools know the top of a bundle.
func (g gathering) version() error {
	text, err := version.GetVersionFile()
	if err != nil {
		return fmt.Errorf("version of Troubleshoot: %w", err)
	}
	return os.WriteFile(filepath.Join(g.dir, constants.VERSION_FILENAME), []byte(text), 0o600)
}

func (g gathering) analyze(specs []v1beta2.SupportBundle) (all []preflight.Result) {
	for _, spec := range specs {
		if len(spec.Spec.Analyzers)+len(spec.Spec.HostAnalyzers) == 0 {
			continue
		}
		found, err := analyze.AnalyzeLocal(g.ctx, g.dir, spec.Spec.Analyzers, spec.Spec.HostAnalyzers)
		if err != nil {
			all = append(all, undecided(name(spec.Name, "analyzers"), err))
			continue
		}
		all = append(all, results(spec.Name, found)...)
	}
	return all
}
