package manifest

import (
	"net/url"
	"regexp"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"

	"github.com/sealift/sealift/internal/diag"
)

// Chart is `chart <name> <repository> <version> [--namespace=NAME]`: a Helm chart to carry, with the images that it needs.
type Chart struct {
	Origin

	Name string // of the release, and of the chart in a repository that is served over HTTP
	// Repository is oci://registry/path/of/the/chart, or the URL of a directory with an index.yaml.
	Repository string
	Version    string // one version, no range
	Namespace  string // that the chart is rendered for; Name unless the line says otherwise
}

// OCIScheme begins the repository of a chart in an image registry.
const OCIScheme = "oci://"

// Keyword is "chart".
func (Chart) Keyword() string { return "chart" }

// Describe returns the name, the repository and the version.
func (d Chart) Describe() Description {
	return Description{Name: d.Name, From: d.Repository + " " + d.Version + " for namespace " + d.Namespace, Source: d.Repository, Version: d.Version, Namespace: d.Namespace}
}

const (
	chartForm     = "write: chart <name> <oci://registry/chart or https repository> <version> [--namespace=NAME]"
	namespaceFlag = "--namespace="
)

func chartSyntax() syntax { return syntax{keywords: []string{"chart"}, parse: parseChart} }

func parseChart(_ string, args []string, at Origin, problems *diag.List) Directive {
	if len(args) < 3 {
		problems.Errorf(at.Pos, chartForm, "chart needs a name, a repository and a version")
		return nil
	}
	d := Chart{Origin: at, Name: args[0], Repository: args[1], Version: args[2], Namespace: args[0]}
	if len(args) == 3 {
		return d
	}
	namespace, ok := strings.CutPrefix(args[3], namespaceFlag)
	switch {
	case !ok:
		unexpected(at.word(3), args[3], "", chartForm, problems)
		return nil
	case len(args) > 4:
		unexpected(at.word(4), args[4], "", chartForm, problems)
		return nil
	}
	d.Namespace = namespace
	return d
}

var (
	// releaseName matches names that Helm accepts for a release: a DNS label, of at most 53 characters.
	releaseName   = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,51}[a-z0-9])?$`)
	namespaceName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)
	chartVersion  = regexp.MustCompile(`^v?[0-9]+(\.[0-9]+){0,2}(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?$`)
)

func (d Chart) check(c *checker) {
	if !releaseName.MatchString(d.Name) {
		c.Errorf(d.word(0), "lower-case letters, digits and '-', at most 53", "bad chart name %q", d.Name)
	}
	c.duplicate(diag.Error, "chart", d.Name, d.word(0), "give each chart a name of its own")
	d.checkRepository(c)
	if !chartVersion.MatchString(d.Version) {
		c.Errorf(d.word(2), "name one version, such as 1.2.3; a range is another chart tomorrow", "bad chart version %q", d.Version)
	}
	if !namespaceName.MatchString(d.Namespace) {
		at := 0
		if len(d.columns) > 3 {
			at = 3
		}
		c.Errorf(d.word(at), "lower-case letters, digits and '-', at most 63", "bad namespace %q", d.Namespace)
	}
}

func (d Chart) checkRepository(c *checker) {
	pos := d.word(1)
	if path, ok := strings.CutPrefix(d.Repository, OCIScheme); ok {
		if _, err := name.NewRepository(path, name.StrictValidation); err != nil {
			c.Errorf(pos, "write oci://registry/path/of/the/chart; the version is the next word", "bad chart reference %q", d.Repository)
		}
		return
	}
	u, err := url.Parse(d.Repository)
	switch {
	case err != nil:
		c.Errorf(pos, "", "bad URL: %v", err)
	case u.Scheme != "https" && u.Scheme != "http":
		c.Errorf(pos, "use oci:// for a registry, https:// for a repository with an index.yaml", "%q is not a chart repository", d.Repository)
	case u.Host == "":
		c.Errorf(pos, "write https://host/path", "URL %q names no host", d.Repository)
	case u.User != nil:
		c.Errorf(pos, "log in with docker login, or give them to a mirror in sealift.yaml",
			"URL of %s has credentials, and a Manifest is in its package for all to read", u.Host)
	case u.RawQuery != "" || u.Fragment != "":
		c.Errorf(pos, "write the URL of the directory that has index.yaml", "URL %q has a query or a fragment", d.Repository)
	case u.Scheme == "http":
		c.Warnf(pos, "use https", "anyone on the way can change what %s sends", u.Host)
	}
}

// ChartsDir is the folder of an add-on that has values for its charts, and of a package that has the charts.
const ChartsDir = "charts"

// ValuesFile is where an add-on has values for a chart, by its path from the Manifest's directory. There may be none.
func (d Chart) ValuesFile() string { return ChartsDir + "/" + d.Name + "-values.yaml" }
