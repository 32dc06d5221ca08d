package conformance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/sealift/sealift/internal/child"
	"github.com/sealift/sealift/internal/scratch"
	"github.com/sealift/sealift/internal/tail"
)

// Suite is Kubernetes' program of tests, e2e.test. Each release has its own.
type Suite struct {
	Program    string   // path of e2e.test
	Kubeconfig string   // the cluster to test; not needed to list
	Arguments  []string // further flags of e2e.test
	// Repositories is a file that says from where pods of tests take images, as KUBE_TEST_REPO_LIST does. Empty for the default.
	Repositories string
}

// grace is how long e2e.test may clean up after its timeout or a stop.
const grace = 2 * time.Minute

// listTimeout is the timeout for a list, which takes a few seconds.
const listTimeout = 5 * time.Minute

// command makes a process of e2e.test. If ctx ends, it is asked to clean up, and killed if it does not end.
func (s Suite) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, s.Program, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = grace
	// Ctrl-C at a terminal must not reach e2e.test as a second signal: it would then not clean up.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Env = os.Environ()
	if s.Repositories != "" {
		cmd.Env = append(cmd.Env, "KUBE_TEST_REPO_LIST="+s.Repositories)
	}
	return cmd
}

// output runs e2e.test for a list.
func (s Suite) output(ctx context.Context, args ...string) (string, error) {
	ctx, stop := context.WithTimeout(ctx, listTimeout)
	defer stop()
	cmd := s.command(ctx, args...)
	var out strings.Builder
	var complaints tail.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaints
	if err := child.Run(cmd); err != nil {
		return "", fmt.Errorf("run %s %s: %w\n%s", s.Program, strings.Join(args, " "), err, complaints.Last(10, 300))
	}
	return out.String(), nil
}

// Version is the release of Kubernetes that the tests belong to, such as v1.36.3.
func (s Suite) Version(ctx context.Context) (string, error) {
	out, err := s.output(ctx, "--version")
	if err != nil {
		return "", err
	}
	version := regexp.MustCompile(`v\d+\.\d+\.\d+\S*`).FindString(out)
	if version == "" {
		return "", fmt.Errorf("%s --version prints %q, which is not a release of Kubernetes", s.Program, strings.TrimSpace(out))
	}
	return version, nil
}

// Images lists the images that pods of tests run, including those of tests outside conformance.
func (s Suite) Images(ctx context.Context) ([]string, error) {
	out, err := s.output(ctx, "--list-images")
	if err != nil {
		return nil, err
	}
	images := strings.Fields(out)
	slices.Sort(images)
	return slices.Compact(images), nil
}

// Tests lists the names of all conformance tests.
func (s Suite) Tests(ctx context.Context) (names []string, err error) {
	err = inScratch(func(dir string) error {
		path := filepath.Join(dir, "report.json")
		if _, err := s.output(ctx, "--ginkgo.dry-run", "--ginkgo.json-report="+path); err != nil {
			return err
		}
		return readFile(path, func(t spec) {
			if t.isTest() && strings.Contains(t.name(), tag) {
				names = append(names, t.name())
			}
		})
	})
	if err != nil {
		return nil, fmt.Errorf("list the conformance tests: %w", err)
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// outcome is the result of one test, and of the suite around it.
type outcome struct {
	test  *spec // nil if it did not begin
	suite error // failures around the test
}

// run runs one test in a separate process.
func (s Suite) run(ctx context.Context, name string, most time.Duration, log io.Writer) (o outcome, err error) {
	ctx, stop := context.WithTimeout(ctx, most+grace)
	defer stop()
	err = inScratch(func(dir string) error {
		path := filepath.Join(dir, "report.json")
		args := []string{
			"--kubeconfig=" + s.Kubeconfig, "--provider=skeleton", "--dump-logs-on-failure=false",
			"--ginkgo.focus=(^| )" + regexp.QuoteMeta(name) + "$", "--ginkgo.timeout=" + most.String(),
			"--ginkgo.v", "--ginkgo.no-color", "--ginkgo.silence-skips", "--ginkgo.json-report=" + path,
		}
		cmd := s.command(ctx, append(args, s.Arguments...)...)
		var end tail.Buffer
		cmd.Stdout = io.MultiWriter(log, &end)
		cmd.Stderr = cmd.Stdout
		ended := child.Run(cmd)
		var wrong []string
		err := readFile(path, func(t spec) {
			switch {
			case t.isTest() && t.name() == name:
				o.test = &t
			case t.failed():
				wrong = append(wrong, t.LeafNodeType+": "+t.reason())
			}
		})
		switch {
		case err != nil && ended == nil:
			return err
		case err != nil: // it ended before it wrote a report
			o.suite = fmt.Errorf("e2e.test: %w\n%s", ended, end.Last(10, 300))
		case len(wrong) > 0:
			o.suite = errors.New(strings.Join(wrong, "\n"))
		case ended != nil && (o.test == nil || !o.test.failed()):
			o.suite = fmt.Errorf("e2e.test: %w\n%s", ended, end.Last(10, 300))
		}
		return nil
	})
	return o, err
}

// readFile reads a report of Ginkgo.
func readFile(path string, each func(spec)) error {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return errors.New("e2e.test wrote no report")
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if err := readReport(f, each); err != nil {
		return fmt.Errorf("read the report of e2e.test: %w", err)
	}
	return nil
}

// inScratch calls do with a temporary folder.
func inScratch(do func(dir string) error) error {
	dir, err := scratch.New()
	if err != nil {
		return err
	}
	return errors.Join(do(dir.Path()), dir.Remove())
}
