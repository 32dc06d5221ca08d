// Package support collects diagnostics of a node into one archive for an expert: the journal and logs of installs, the state of
// the host, the data named in the add-ons' troubleshoot.yaml, all with secrets masked.
//
// It works on a broken node: every failure leaves a line in errors.txt. It changes nothing, sends nothing anywhere, and never
// reads the keys of a cluster into the archive.
package support

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/sealift/sealift/installer/cluster/kubeadm"
	"github.com/sealift/sealift/installer/host/files"
	"github.com/sealift/sealift/installer/host/redact"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/internal/atomicfile"
	"github.com/sealift/sealift/internal/regularfile"
	"github.com/sealift/sealift/preflight"
	"github.com/sealift/sealift/spec"
)

// Options select what is collected from where.
type Options struct {
	Root     string // the install root
	StateDir string // of the journal
	LogDir   string // of the installs' logs
	Host     fs.FS  // the host's file system; nil for the real one
	Program  string // sealift-preflight; "" leaves out what add-ons and Specs name
	Specs    []Spec // more specifications, in addition to the add-ons'
	Version  string // of sealift
	Log      *slog.Logger
}

// Spec is a file with a SupportBundle of Troubleshoot.
type Spec struct {
	Name string
	Text []byte
}

// Summary is the result.
type Summary struct {
	File    string             `json:"file"`
	Size    int64              `json:"size"`    // bytes
	Files   int                `json:"files"`   // in the archive
	Errors  []string           `json:"errors"`  // what could not be collected
	Results []preflight.Result `json:"results"` // results of the analyzers of add-ons and Specs
}

// Write collects and writes the archive, readable only by its owner. Collected files are stored beside it in the meantime.
func Write(ctx context.Context, name string, o Options) (summary Summary, err error) {
	if o.Host == nil {
		o.Host = os.DirFS("/")
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	specs := make([][]byte, len(o.Specs))
	for i, s := range o.Specs {
		if specs[i], err = s.render("Secret", "ConfigMap", "Redactor"); err != nil {
			return summary, err
		}
	}
	if len(specs) > 0 && o.Program == "" {
		return summary, fmt.Errorf("%s cannot be collected: this node has no %s; make the bundle with --sealift-preflight", o.Specs[0].Name, preflight.ProgramName)
	}
	beside, err := filepath.Abs(filepath.Dir(name))
	if err != nil {
		return summary, err
	}
	folder, err := o.workFolder(beside)
	if err != nil {
		return summary, fmt.Errorf("make room beside %s: %w", name, err)
	}
	defer func() { err = errors.Join(err, folder.Remove()) }()
	c := &collection{Options: o, dir: folder.Path, redactor: redact.New(), summary: Summary{File: name, Errors: []string{}, Results: []preflight.Result{}}}
	if c.room, err = logRoom(c.dir); err != nil {
		return summary, err
	}
	c.sealift()
	c.files()
	c.api = c.answers(ctx)
	c.commands(ctx)
	incomplete := c.troubleshoot(ctx, specs)
	if err := ctx.Err(); err != nil {
		return summary, err
	}
	if err := c.unpack(); err != nil {
		return summary, fmt.Errorf("unpack what was collected: %w", err)
	}
	c.finish()
	err = files.Fill(name, 0o600, func(f *os.File) error {
		if err := c.pack(f, strings.TrimSuffix(filepath.Base(name), ".tar.gz")); err != nil {
			return err
		}
		c.summary.Size, err = f.Seek(0, io.SeekCurrent)
		return err
	})
	if err != nil {
		return summary, fmt.Errorf("write the support bundle: %w", err)
	}
	if len(specs) > 0 && incomplete != nil {
		return c.summary, fmt.Errorf("%s lacks what %s names: %w", name, o.Specs[0].Name, incomplete)
	}
	return c.summary, nil
}

// workFolder makes a folder for what is collected. It removes those of runs that were killed.
func (o Options) workFolder(beside string) (*atomicfile.Folder, error) {
	pattern := ".support-bundle-*"
	folder, err := files.TempFolder(beside, pattern)
	if errors.Is(err, files.ErrUnsafe) { // such as the home of who calls sudo
		beside, pattern = "/var/tmp", "sealift-support-bundle-*"
		folder, err = files.TempFolder(beside, pattern)
	}
	if err != nil {
		return nil, err
	}
	if err := files.Sweep(beside, pattern); err != nil {
		o.Log.Warn("not removed", "what", "earlier collections in "+beside, "error", err)
	}
	return folder, nil
}

// render returns the text without templates. It may have documents of other kinds, too.
func (s Spec) render(others ...string) ([]byte, error) {
	return preflight.Specification{Name: s.Name, Kind: preflight.SupportBundle, Text: s.Text, Others: others}.Render(preflight.Node{}, &spec.Installer{})
}

// collection is a support bundle on its way.
type collection struct {
	Options
	dir      string
	redactor *redact.Redactor
	summary  Summary
	room     int64 // bytes of logs that may still be collected
	api      bool  // whether the cluster's API answers
}

// failed records a failed collection. A missing part of a host is not an error.
func (c *collection) failed(what string, err error) {
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return
	}
	c.Log.Warn("not collected", "what", what, "error", err)
	c.summary.Errors = append(c.summary.Errors, what+": "+err.Error())
}

// put writes one file of the bundle, masked.
func (c *collection) put(name string, from io.Reader) {
	path := filepath.Join(c.dir, filepath.FromSlash(name))
	err := files.MkdirAll(filepath.Dir(path), 0o700)
	var f *os.File
	if err == nil {
		f, err = files.Create(path, 0o600)
	}
	if err == nil {
		err = errors.Join(c.redactor.Copy(f, from), f.Close())
	}
	c.failed(name, err)
}

func (c *collection) putJSON(name string, value any) {
	text, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		c.failed(name, err)
		return
	}
	c.put(name, strings.NewReader(string(text)+"\n"))
}

// sealift collects what installs left: not the values that hooks have set, as there may be secrets among them. Those by their names,
// and those of the Installer, are masked from then on, as in the logs of installs: pods and hooks may print them.
func (c *collection) sealift() {
	c.put("sealift/version.txt", strings.NewReader(c.Version+"\n"))
	var installer any
	text, err := node.ReadInstaller(c.Root)
	if err == nil {
		err = yaml.Unmarshal(text, &installer)
	}
	c.failed("secrets of the Installer", err)
	c.redactor.Hide(redact.Secrets(installer)...)
	records, err := lifecycle.ReadJournal(c.StateDir)
	c.failed("journal", err)
	for i := range records {
		c.redactor.Hide(redact.Named(records[i].State)...)
		records[i].State = nil
	}
	c.putJSON("sealift/journal.json", append([]lifecycle.Record{}, records...))
	c.tree("sealift/preflight", filepath.Join(c.StateDir, "preflight"))
	c.tree("sealift/logs", c.LogDir)
	if entries, err := os.ReadDir(filepath.Join(c.Root, "addons")); err == nil {
		var names []string
		for _, e := range entries {
			versions, _ := os.ReadDir(filepath.Join(c.Root, "addons", e.Name()))
			for _, v := range versions {
				names = append(names, e.Name()+" "+v.Name())
			}
		}
		c.put("sealift/addons.txt", strings.NewReader(strings.Join(names, "\n")+"\n"))
	}
}

// programTime is how long Troubleshoot's collectors may take together.
const programTime = 20 * time.Minute

// troubleshoot collects what these specifications and the add-ons on this node name. Its files are redacted by Troubleshoot, as are
// existing ones, and then again here.
func (c *collection) troubleshoot(ctx context.Context, specs [][]byte) error {
	names, err := filepath.Glob(filepath.Join(c.Root, "addons", "*", "*", "troubleshoot.yaml"))
	c.failed("add-ons", err)
	for _, name := range names {
		addOn := "add-on " + filepath.Base(filepath.Dir(filepath.Dir(name)))
		text, err := regularfile.ReadFile(name)
		if err == nil {
			text, err = Spec{addOn, text}.render()
		}
		if err != nil {
			c.failed(addOn, err)
			continue
		}
		specs = append(specs, text)
	}
	if len(specs) == 0 {
		return nil
	}
	if c.Program == "" {
		c.failed("what add-ons and other files name", fmt.Errorf("this node has no %s", preflight.ProgramName))
		return nil
	}
	kubeconfig := ""
	if c.api {
		kubeconfig = kubeadm.AdminKubeconfig
	}
	results, err := preflight.Program{Path: c.Program, Time: programTime}.Collect(ctx, c.dir, kubeconfig, specs)
	c.failed("what add-ons and other files name", err)
	c.summary.Results = append(c.summary.Results, results...)
	return err
}
