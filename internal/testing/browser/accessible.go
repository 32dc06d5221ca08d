package browser

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/sealift/sealift/testgrid/lab/cache"
)

// axe-core from npm. Its digest is that of the file in the package.
const (
	axePackage = "axe-core@4.10.3"
	axeDigest  = "880970c081707360e64f34cea25ff91892f5bc95675b0776925b9709dd8a68bb"
	axeTimeout = 2 * time.Minute
)

// axeSource returns the script of axe-core, from the lab's cache or from npm.
func axeSource(ctx context.Context) (string, error) {
	dir, err := cache.Open("")
	if err != nil {
		return "", err
	}
	made, err := dir.Ensure(ctx, strings.ReplaceAll(axePackage, "@", "-"), fetchAxe)
	if err != nil {
		return "", err
	}
	text, err := os.ReadFile(filepath.Join(made, "axe.min.js"))
	return string(text), err
}

// fetchAxe fills a folder with the script.
func fetchAxe(ctx context.Context, dir string) error {
	ctx, cancel := context.WithTimeout(ctx, axeTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", "npm pack --silent "+axePackage+" && tar xzf *.tgz --strip-components=1 package/axe.min.js && rm *.tgz")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("fetch %s: %w: %s", axePackage, err, out)
	}
	text, err := os.ReadFile(filepath.Join(dir, "axe.min.js"))
	if err != nil {
		return err
	}
	if sum := sha256.Sum256(text); hex.EncodeToString(sum[:]) != axeDigest {
		return errors.New(axePackage + " has another digest than expected: " + hex.EncodeToString(sum[:]))
	}
	return nil
}

// Accessible fails t for each rule of axe-core that the open page breaks. Without axe-core, which npm fetches once, it skips t.
func Accessible(ctx context.Context, t testing.TB) {
	t.Helper()
	source, err := axeSource(t.Context())
	if err != nil {
		t.Skipf("the accessibility of pages is not checked: %v", err)
	}
	var found struct {
		Passes     int
		Violations []struct {
			ID    string
			Help  string
			Nodes []string
		}
	}
	const run = `axe.run().then(r => ({passes: r.passes.length, violations: r.violations.map(v => ({id: v.id, help: v.help, nodes: v.nodes.map(n => n.html)}))}))`
	await := func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }
	if err := chromedp.Run(ctx, chromedp.Evaluate(source+"\n;0", nil), chromedp.Evaluate(run, &found, await)); err != nil {
		t.Fatalf("check the accessibility of the page: %v", err)
	}
	for _, v := range found.Violations {
		t.Errorf("the page breaks %s: %s:\n%s", v.ID, v.Help, strings.Join(v.Nodes, "\n"))
	}
	if found.Passes == 0 {
		t.Error("no rule of axe-core applies to the page")
	}
}
