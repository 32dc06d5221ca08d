package evidence

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sealift/sealift/builder/inventory"
	"github.com/sealift/sealift/builder/vulnerability"
	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/internal/plaintext"
	"github.com/sealift/sealift/kube"
)

// running are the flags by which status looks for vulnerabilities in the images of the cluster.
type running struct {
	vulnerabilities Vulnerabilities
	bundles         []string
	kubeconfig      string
}

// AddToStatus lets the command status look for vulnerabilities. Nodes' own program has no such flag: what reads images is too large for it.
func AddToStatus(a *app.App, cmd *cobra.Command) {
	var o running
	cmd.Long += `

With --vulnerabilities, the command looks for known vulnerabilities in the images that the nodes have and that pods run, and prints nothing else.
Their content is read from the bundles that brought them, --bundle. An image that none of them has is unknown. It uses no network but the
API of the cluster: on a control plane, or by --kubeconfig from any machine. 'sealift inspect --vulnerabilities' also looks into the programs of
the nodes themselves, which the bundle has beside its images. The exit code is 3 if --fail-on refuses something.`
	cmd.Example += `
  sealift status --vulnerabilities vulnerabilities.tar.gz --bundle cluster.tar.gz --fail-on high
  sealift status --vulnerabilities vulnerabilities.tar.gz --bundle cluster.tar.gz --bundle app.tar.gz --kubeconfig admin.conf -o json`
	o.vulnerabilities.databaseFlags(cmd)
	cmd.Flags().StringArrayVar(&o.bundles, "bundle", nil, "with --vulnerabilities: a bundle or package that brought images; may be repeated")
	cmd.Flags().StringVar(&o.kubeconfig, "kubeconfig", "", "with --vulnerabilities: the cluster, if this host is not one of its control planes")
	_ = cmd.MarkFlagFilename("bundle")
	_ = cmd.MarkFlagFilename("kubeconfig")
	for _, flag := range []string{"record", "metrics", "alert-rules"} {
		cmd.MarkFlagsMutuallyExclusive("vulnerabilities", flag)
	}
	show := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := o.vulnerabilities.Check(); err != nil {
			return err
		}
		switch {
		case o.vulnerabilities.Database != "" && len(o.bundles) == 0:
			return app.UsageError("--vulnerabilities needs --bundle, the bundles that brought the images of the cluster")
		case o.vulnerabilities.Database != "":
			return commands{a}.running(cmd.Context(), o, cmd.Flag("output").Value.String())
		case len(o.bundles) > 0 || o.kubeconfig != "":
			return app.UsageError("--bundle and --kubeconfig need --vulnerabilities, a database that 'sealift vulndb pull' has made")
		}
		return show(cmd, args)
	}
}

// runningImage is an image that nodes have or that pods run.
type runningImage struct {
	Names   []string `json:"names"`
	Digests []string `json:"digests,omitempty"`
	Nodes   []string `json:"nodes"`
	// Known reports whether one of the bundles has it.
	Known bool `json:"known"`
}

// runningReport is the document of status --vulnerabilities.
type runningReport struct {
	Database databaseReport `json:"database"`
	Bundles  []string       `json:"bundles"` // digests of their indexes
	Images   []runningImage `json:"images"`
	vulnerability.Report
}

func (a commands) running(ctx context.Context, o running, format string) error {
	exceptions, _, err := o.vulnerabilities.exceptions()
	if err != nil {
		return err
	}
	reached, err := reach(o.kubeconfig)
	if err != nil {
		return err
	}
	images, err := imagesOf(ctx, reached)
	if err != nil {
		return err
	}
	database, from, err := o.vulnerabilities.open(ctx, a.App)
	if err != nil {
		return err
	}
	defer from.Close()
	report := runningReport{Database: databaseReport{"sha256:" + from.Digest, database.Date(), database.Info}, Images: images}
	var carried []inventory.Image
	for _, name := range o.bundles {
		listed, digest, err := a.list(ctx, name, "")
		if err != nil {
			return fmt.Errorf("--bundle: %w", err)
		}
		carried = append(carried, listed.Images...)
		report.Bundles = append(report.Bundles, digest)
	}
	found, unknown := pick(report.Images, carried)
	matched, err := database.Match(ctx, &inventory.Inventory{Images: found}, exceptions)
	if err != nil {
		return err
	}
	report.Report = *matched
	report.Unknown = append(unknown, report.Unknown...)
	if err := a.Print(format, report, func() error { return report.print(a.Out, time.Now()) }); err != nil {
		return err
	}
	return o.vulnerabilities.judge(report.Findings)
}

// reach opens the cluster of a kubeconfig, or of this control plane.
func reach(kubeconfig string) (*kube.Cluster, error) {
	if kubeconfig != "" {
		config, err := cluster.Config(kubeconfig)
		if err != nil {
			return nil, err
		}
		return kube.Connect(config, nil)
	}
	view, err := cluster.NewView()
	if err != nil {
		return nil, err
	}
	if view == nil || view.Own {
		return nil, errors.New("this host is not a control plane; run the command on one, or name the cluster with --kubeconfig")
	}
	return view.Cluster(), nil
}

// imagesOf lists the images that nodes report and that containers of pods run. A kubelet reports the largest 50 images unless it is set otherwise, so
// pods are asked, too.
func imagesOf(ctx context.Context, c *kube.Cluster) ([]runningImage, error) {
	all := make(collected)
	for kind, note := range map[string]func(unstructured.Unstructured){"Node": all.node, "Pod": all.pod} {
		objects, err := c.Objects(ctx, kube.Ref{Version: "v1", Kind: kind})
		if err != nil {
			return nil, fmt.Errorf("list the images of the cluster: %w", err)
		}
		for page := (metav1.ListOptions{Limit: 500}); ; {
			list, err := objects.List(ctx, page)
			if err != nil {
				return nil, fmt.Errorf("list the images of the cluster: %w", err)
			}
			for _, object := range list.Items {
				note(object)
			}
			if page.Continue = list.GetContinue(); page.Continue == "" {
				break
			}
		}
	}
	return all.sorted(), nil
}

// collected has images by their digest, or by their name if no digest is reported.
type collected map[string]*runningImage

func (c collected) add(node string, names ...string) {
	var image runningImage
	for _, name := range names {
		// A container runtime that has no digest of a repository for an image reports that of its configuration.
		if at := strings.LastIndex(name, "@sha256:"); at >= 0 {
			image.Digests = append(image.Digests, name[at+1:])
		} else if name != "" && !strings.HasPrefix(name, "sha256:") {
			image.Names = append(image.Names, name)
		}
	}
	key := ""
	if len(image.Digests) > 0 {
		key = slices.Min(image.Digests)
	} else if len(image.Names) > 0 {
		key = slices.Min(image.Names)
	}
	if key == "" {
		return
	}
	if c[key] == nil {
		c[key] = &image
	} else {
		c[key].Names = append(c[key].Names, image.Names...)
		c[key].Digests = append(c[key].Digests, image.Digests...)
	}
	c[key].Nodes = append(c[key].Nodes, node)
}

func (c collected) node(o unstructured.Unstructured) {
	images, _, _ := unstructured.NestedSlice(o.Object, "status", "images")
	for _, one := range images {
		if image, ok := one.(map[string]any); ok {
			names, _, _ := unstructured.NestedStringSlice(image, "names")
			c.add(o.GetName(), names...)
		}
	}
}

func (c collected) pod(o unstructured.Unstructured) {
	node, _, _ := unstructured.NestedString(o.Object, "spec", "nodeName")
	for _, kind := range []string{"initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"} {
		statuses, _, _ := unstructured.NestedSlice(o.Object, "status", kind)
		for _, one := range statuses {
			if status, ok := one.(map[string]any); ok && node != "" {
				name, _, _ := unstructured.NestedString(status, "image")
				id, _, _ := unstructured.NestedString(status, "imageID")
				c.add(node, name, id)
			}
		}
	}
}

func (c collected) sorted() []runningImage {
	all := []runningImage{}
	for _, key := range slices.Sorted(maps.Keys(c)) {
		for _, list := range []*[]string{&c[key].Names, &c[key].Digests, &c[key].Nodes} {
			slices.Sort(*list)
			*list = slices.Compact(*list)
		}
		all = append(all, *c[key])
	}
	return all
}

// pick returns the images of bundles that a cluster has, each once, and says which of the cluster's are not known. A digest decides where one is
// reported: another image may have the same name by now.
func pick(images []runningImage, carried []inventory.Image) (found []inventory.Image, unknown []string) {
	taken := make(map[[3]string]bool)
	for n := range images {
		for _, i := range carried {
			if !images[n].is(i) {
				continue
			}
			images[n].Known = true
			if key := [3]string{i.Ref, i.Platform, i.Manifest}; !taken[key] {
				taken[key] = true
				found = append(found, i)
			}
		}
		if !images[n].Known {
			unknown = append(unknown, fmt.Sprintf("image %s on %s: none of the bundles has it", images[n], strings.Join(images[n].Nodes, ", ")))
		}
	}
	slices.SortFunc(found, func(a, b inventory.Image) int {
		return cmp.Or(cmp.Compare(a.Ref, b.Ref), cmp.Compare(a.Platform, b.Platform), cmp.Compare(a.Manifest, b.Manifest))
	})
	return found, unknown
}

func (r runningImage) is(i inventory.Image) bool {
	if len(r.Digests) > 0 {
		return slices.Contains(r.Digests, i.Digest) || slices.Contains(r.Digests, i.Manifest)
	}
	return slices.Contains(r.Names, i.Ref)
}

// String is the first name, or else the digest.
func (r runningImage) String() string {
	if len(r.Names) > 0 {
		return r.Names[0]
	}
	return strings.Join(r.Digests, ", ")
}

func (r runningReport) print(out io.Writer, now time.Time) error {
	if err := (vulnerabilityReport{Database: r.Database, Report: r.Report}).print(out, now); err != nil {
		return err
	}
	fmt.Fprintln(out, "\nimages of the cluster:")
	t := plaintext.NewTable(tabwriter.NewWriter(out, 2, 0, 2, ' ', 0))
	for _, i := range r.Images {
		state := "known"
		if !i.Known {
			state = "unknown"
		}
		t.Printf("  %s\t%s\t%s\n", state, i, strings.Join(i.Nodes, ", "))
	}
	return t.Flush()
}
