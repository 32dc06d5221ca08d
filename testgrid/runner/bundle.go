package runner

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/sealift/sealift/internal/atomicfile"
	"github.com/sealift/sealift/internal/child"
	"github.com/sealift/sealift/internal/sha256hex"
	"github.com/sealift/sealift/preflight"
	"github.com/sealift/sealift/spec"
)

// bundleGrace is how long 'sealift bundle' may take to end after it was asked to.
const bundleGrace = 30 * time.Second

// bundles makes the bundle of each Installer once.
type bundles struct {
	sealift string
	store   string
	cas     string // file with the CAs of the store's certificate; "" for those of the system
	dir     string

	mu   sync.Mutex
	made map[string]*bundle // by the digest of the Installer and of its other inputs
}

// bundle is made by the first test that needs it.
type bundle struct {
	once   sync.Once
	err    error
	path   string
	digest string // of its index, or of the Installer
	text   string // the Installer
	server string // where nodes get it over their network, or "" if it is carried to them
	// packages are the digests of the packages by name and version.
	packages map[string]string
}

// open makes an empty folder. A killed run may have left a full one.
func (b *bundles) open() error {
	b.made = map[string]*bundle{}
	if err := b.close(); err != nil {
		return err
	}
	return os.MkdirAll(b.dir, 0o755)
}

func (b *bundles) close() error { return os.RemoveAll(b.dir) }

// wanted is the target of a bundle.
type wanted struct {
	installer *spec.Installer
	server    string // where nodes get it, or ""
	elsewhere bool   // the server has its own packages
	from      string // the version of Kubernetes that it upgrades, or ""
	collects  bool   // the test has its own support bundle, which a program of the bundle collects
}

// of returns the bundle of an Installer.
func (b *bundles) of(ctx context.Context, w wanted) (*bundle, error) {
	id, err := w.installer.Digest()
	if err != nil {
		return nil, err
	}
	key := w
	key.installer = nil
	id += fmt.Sprintf("-%x", sha256.Sum256(fmt.Appendf(nil, "%+v", key)))[:17]
	b.mu.Lock()
	made := b.made[id]
	if made == nil {
		made = &bundle{path: filepath.Join(b.dir, id+".tar.gz"), server: w.server}
		b.made[id] = made
	}
	b.mu.Unlock()
	made.once.Do(func() { made.err = b.make(ctx, w, made) })
	return made, made.err
}

// make runs 'sealift bundle', as a user does.
func (b *bundles) make(ctx context.Context, w wanted, to *bundle) error {
	text, err := w.installer.Canonical()
	if err != nil {
		return err
	}
	to.text, to.packages = string(text), map[string]string{}
	if w.elsewhere {
		to.digest = sha256hex.Of(text)
		return nil
	}
	file := strings.TrimSuffix(to.path, ".tar.gz") + ".yaml"
	if err := atomicfile.Write(file, text); err != nil {
		return err
	}
	args := []string{"bundle", "-f", file, "--store", b.store, "--out", to.path, "-o", "json"}
	if w.from != "" {
		args = append(args, "--upgrade-from", w.from)
	}
	if w.collects {
		args = append(args, "--sealift-preflight", filepath.Join(filepath.Dir(b.sealift), preflight.ProgramName))
	}
	if b.cas != "" {
		args = append(args, "--ca-cert", b.cas)
	}
	cmd := exec.CommandContext(ctx, b.sealift, args...)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = bundleGrace
	if err := child.Run(cmd); err != nil {
		return fmt.Errorf("make the bundle of the Installer: %w\n%s", err, strings.TrimSpace(errOut.String()))
	}
	var summary struct {
		Digest   string
		Packages []struct{ Name, Version, Index string }
	}
	if err := json.Unmarshal(out.Bytes(), &summary); err != nil || summary.Digest == "" {
		return fmt.Errorf("'sealift bundle -o json' printed no digest: %w\n%s", err, out.String())
	}
	to.digest = summary.Digest
	for _, p := range summary.Packages {
		to.packages[p.Name+" "+p.Version] = p.Index
	}
	return nil
}

// bundlesFor returns the bundles that a job installs and upgrades to, or nil if it does not run, or not upgrade.
func (r *runner) bundlesFor(ctx context.Context, j job) (b, newer *bundle, err error) {
	if j.unable() != "" {
		return nil, nil, nil
	}
	install := wanted{installer: j.test.Install, collects: j.test.SupportBundle != ""}
	install.server, install.elsewhere = r.server(j.test, j.test.InstallEndpoint)
	b, err = r.bundles.of(ctx, install)
	if err != nil || j.test.Upgrade == nil {
		return b, nil, err
	}
	upgrade := wanted{installer: j.test.Upgrade, collects: install.collects, from: b.kubernetes()}
	upgrade.server, upgrade.elsewhere = r.server(j.test, j.test.UpgradeEndpoint)
	newer, err = r.bundles.of(ctx, upgrade)
	return b, newer, err
}

// kubernetes is the version of Kubernetes in the bundle, or "" if it has none.
func (b *bundle) kubernetes() string {
	for name := range b.packages {
		if version, ok := strings.CutPrefix(name, "kubernetes "); ok {
			return version
		}
	}
	return ""
}

// digest covers everything that decides the result of a job: the test, the installed packages, and the hosts.
func (r *runner) digest(j job, b, newer *bundle) string {
	input := map[string]any{"test": j.test, "system": j.system}
	if b != nil {
		input["bundle"] = []string{b.digest, b.server}
	}
	if newer != nil {
		input["upgrade"] = []string{newer.digest, newer.server}
	}
	if text := helpersFor(scripts(j.test)); text != "" {
		input["helpers"] = text
	}
	text, err := json.Marshal(input)
	if err != nil {
		return ""
	}
	return sha256hex.Of(text)
}
