package testgrid

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/cli/kubeconfig"
	"github.com/sealift/sealift/testgrid/conformance"
	"github.com/sealift/sealift/testgrid/report"
)

type conformanceOptions struct {
	conformance.Options
	focus, skip string
	quick       bool
	list        bool
	format      string
}

func (a commands) conformanceCommand() *cobra.Command {
	var o conformanceOptions
	cmd := &cobra.Command{
		Use:   "conformance --out REPORT [-- FLAGS OF e2e.test]",
		Short: "Run Kubernetes' conformance tests on a cluster, and write a report",
		Long: `Run Kubernetes' conformance tests on a cluster, and write a report. The tests are those of e2e.test, a program that each release
of Kubernetes has in kubernetes-test-linux-amd64.tar.gz. Its minor version must be that of the cluster.

Nothing is fetched from the internet. 'sealift testgrid conformance images' lists the images that have to be on the nodes.

REPORT is a folder that any web server can serve: index.html, junit.xml, results.tap and results.json. Each test runs in a process
of its own. Run the same command again after a kill, and it goes on. Tests that have ended do not run again.

Exit codes: 0 if all tests passed or were skipped, 1 if one failed.`,
		Example: `  sealift testgrid conformance --kubeconfig admin.conf --out report --quick
  sealift testgrid conformance --kubeconfig admin.conf --out report --e2e kubernetes/test/bin/e2e.test --parallel 4
  sealift testgrid conformance --kubeconfig admin.conf --out report --focus 'ConfigMap|Secret' --skip '\[Serial\]'
  sealift testgrid conformance --kubeconfig admin.conf --out report --again failed -- --allowed-not-ready-nodes=1`,
		Args: onlyAfterDash,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Suite.Arguments = args
			return a.conformance(cmd.Context(), o)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.Suite.Kubeconfig, "kubeconfig", "", "kubeconfig of the cluster's administrator (default: as kubectl finds it)")
	flags.StringVar(&o.Out, "out", "", "folder for the report")
	addSuiteFlags(cmd, &o.Suite)
	flags.StringVar(&o.focus, "focus", "", "run only conformance tests whose name matches this regular expression")
	flags.StringVar(&o.skip, "skip", "", "leave out tests whose name matches this regular expression")
	flags.BoolVar(&o.quick, "quick", false, "run one test, as sonobuoy's quick mode does: "+conformance.Quick)
	flags.BoolVar(&o.list, "list", false, "print the names of the tests that would run, and end")
	flags.IntVar(&o.Parallel, "parallel", 1, "how many tests run at one time; tests that are marked serial run alone")
	flags.DurationVar(&o.Timeout, "timeout", conformance.DefaultTimeout, "how long each test may take")
	flags.Var(app.NewChoice(&o.Again, []string{conformance.AgainFailed, conformance.AgainAll}), "again", "run tests again that have ended: failed or all")
	app.AddOutputFlag(cmd, &o.format)
	cmd.AddCommand(a.conformanceImagesCommand())
	return cmd
}

// onlyAfterDash refuses arguments before "--". Those behind it are for another program.
func onlyAfterDash(cmd *cobra.Command, args []string) error {
	if before := cmd.ArgsLenAtDash(); len(args) > 0 && before != 0 {
		return app.UsageError("unexpected argument %q; flags of e2e.test go behind --", args[0])
	}
	return nil
}

// addSuiteFlags adds the flags for the program of tests.
func addSuiteFlags(cmd *cobra.Command, s *conformance.Suite) {
	cmd.Flags().StringVar(&s.Program, "e2e", "", "Kubernetes' e2e.test (default: the one beside this program, or on the PATH)")
	cmd.Flags().StringVar(&s.Repositories, "image-repositories", "", "file that names other repositories for images of tests, as KUBE_TEST_REPO_LIST does")
}

func (a commands) conformance(ctx context.Context, o conformanceOptions) error {
	if err := o.check(); err != nil {
		return err
	}
	var err error
	if o.Suite.Program, err = findProgram(o.Suite.Program, "e2e.test", "--e2e"); err != nil {
		return err
	}
	if o.list {
		return a.listConformance(ctx, o)
	}
	if o.Out, err = filepath.Abs(o.Out); err != nil {
		return err
	}
	if o.Cluster, err = clusterOf(ctx, o.Suite.Kubeconfig); err != nil {
		return err
	}
	if o.Suite.Kubeconfig == "" {
		o.Suite.Kubeconfig = clientcmd.NewDefaultClientConfigLoadingRules().GetDefaultFilename()
	}
	line, end := watch(ctx, a.Err, report.Folder{Path: o.Out})
	end = sync.OnceFunc(end)
	defer end()
	o.Progress = line
	cells, err := conformance.Run(ctx, o.Options)
	end()
	if err != nil {
		return err
	}
	return a.concluded(cells, nil, o.Out, o.format)
}

// check reads the flags with their own syntax.
func (o *conformanceOptions) check() (err error) {
	if o.Out == "" && !o.list {
		return app.UsageError("--out is missing; see 'sealift testgrid conformance --help'")
	}
	if o.quick && o.focus != "" {
		return app.UsageError("--quick is a focus of its own; choose one of --quick and --focus")
	}
	if o.Parallel < 1 || o.Timeout <= 0 {
		return app.UsageError("--parallel must be 1 or more, and --timeout more than 0")
	}
	if o.quick {
		o.focus = regexp.QuoteMeta(conformance.Quick)
	}
	if o.Focus, err = regexp.Compile(o.focus); err != nil {
		return app.UsageError("--focus is not a regular expression: %v", err)
	}
	if o.skip == "" {
		return nil
	}
	if o.Skip, err = regexp.Compile(o.skip); err != nil {
		return app.UsageError("--skip is not a regular expression: %v", err)
	}
	return nil
}

func (a commands) listConformance(ctx context.Context, o conformanceOptions) error {
	all, err := o.Suite.Tests(ctx)
	if err != nil {
		return err
	}
	chosen, err := o.Choose(all)
	if err != nil {
		return err
	}
	if o.format == "json" {
		return a.PrintJSON(chosen)
	}
	for _, name := range chosen {
		fmt.Fprintln(a.Out, name)
	}
	return nil
}

// clusterOf asks a cluster who it is.
func clusterOf(ctx context.Context, file string) (c conformance.Cluster, err error) {
	config, err := kubeconfig.Load(file, "")
	if err != nil {
		return c, err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return c, err
	}
	version, err := client.Discovery().ServerVersion()
	if err != nil {
		return c, fmt.Errorf("ask the cluster for its version: %w", err)
	}
	namespace, err := client.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return c, fmt.Errorf("ask the cluster for its ID: %w", err)
	}
	return conformance.Cluster{ID: string(namespace.UID), Version: version.GitVersion}, nil
}

func (a commands) conformanceImagesCommand() *cobra.Command {
	var s conformance.Suite
	var format string
	cmd := &cobra.Command{
		Use:   "images",
		Short: "Print the images of Kubernetes' tests as a Manifest",
		Long: `Print the images that pods of Kubernetes' tests run, as the Manifest of an add-on. Build a package with the images that your tests
need, and load it into all nodes with 'sealift images load'. Some images are for tests of clouds, and some cannot be pulled on purpose.`,
		Example: `  sealift testgrid conformance images --e2e kubernetes/test/bin/e2e.test
  sealift testgrid conformance images | grep -E ' (agnhost|busybox|nginx|pause)' >conformance-images/1.36.3/Manifest`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if s.Program, err = findProgram(s.Program, "e2e.test", "--e2e"); err != nil {
				return err
			}
			images, err := s.Images(cmd.Context())
			if err != nil {
				return err
			}
			if format == "json" {
				return a.PrintJSON(images)
			}
			for _, l := range imageLines(images) {
				fmt.Fprintln(a.Out, l)
			}
			return nil
		},
	}
	addSuiteFlags(cmd, &s)
	app.AddOutputFlag(cmd, &format)
	return cmd
}

// imageLines are lines of a Manifest. Several versions of an image have different names.
func imageLines(images []string) (lines []string) {
	taken := map[string]int{}
	for _, image := range images {
		name, _, _ := strings.Cut(path.Base(image), "@")
		name, _, _ = strings.Cut(name, ":")
		taken[name]++
		if n := taken[name]; n > 1 {
			name = fmt.Sprintf("%s-%d", name, n)
		}
		lines = append(lines, "image "+name+" "+image)
	}
	return lines
}

// findProgram returns the program that a flag names, or the one beside this program or on the PATH.
func findProgram(named, usual, flag string) (string, error) {
	if named == "" {
		named = usual
		if self, err := os.Executable(); err == nil {
			if beside, err := exec.LookPath(filepath.Join(filepath.Dir(self), usual)); err == nil {
				named = beside
			}
		}
	}
	found, err := exec.LookPath(named)
	if err != nil {
		return "", fmt.Errorf("look for the program %s: %w; name it with %s", usual, err, flag)
	}
	return filepath.Abs(found)
}
