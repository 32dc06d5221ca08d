package page

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/sealift/sealift/spec"
	"github.com/sealift/sealift/store/release"
)

// composed is the form with its result.
type composed struct {
	Choices []choice
	Further string
	Result  result
}

// result is the result for the chosen add-ons.
type result struct {
	Empty    bool // no add-on is chosen yet
	Wrong    []string
	YAML     string
	Size     int64 // of the bundle
	Resolved []string
	Warnings []string // options without effect, and probable typing mistakes
	// ID, Script and Bundle are set once the Installer is stored.
	ID, Script, Bundle string
}

// compose shows the form. The choices are in the query, so that people can share a link. A request of the page's script gets
// only the result.
func (s *Site) compose(w http.ResponseWriter, r *http.Request) error {
	c, err := s.read(r, r.URL.Query())
	if err != nil {
		return err
	}
	s.preview(r, &c)
	if r.Header.Get("X-Part") == "result" {
		w.Header().Set("Vary", "X-Part")
		return s.show(w, r, "result.html", http.StatusOK, "", c.Result)
	}
	return s.show(w, r, "compose.html", http.StatusOK, "Compose an Installer", c)
}

// create stores the Installer of the form and shows the commands for it.
func (s *Site) create(w http.ResponseWriter, r *http.Request) error {
	_ = r.ParseForm() // malformed pairs are ignored, as in a query
	c, err := s.read(r, r.PostForm)
	if err != nil {
		return err
	}
	status := http.StatusOK
	if i := s.preview(r, &c); i != nil {
		if err := s.store(r, i, &c.Result); err != nil {
			c.Result.Wrong = strings.Split(err.Error(), "\n")
		}
	}
	if c.Result.ID == "" {
		status = http.StatusUnprocessableEntity
	}
	return s.show(w, r, "compose.html", status, "Compose an Installer", c)
}

// read fills the form with the sent values.
func (s *Site) read(r *http.Request, sent url.Values) (composed, error) {
	index, err := s.source.List(r)
	if err != nil {
		return composed{}, err
	}
	c := composed{Further: sent.Get(furtherField)}
	for _, a := range byName(index) {
		one := choice{Name: a.Name, Version: sent.Get(versionField + a.Name), Versions: patterns(a)}
		chosen := selected(a, one.Version)
		one.Size = chosen.Size
		meta, err := s.meta(r, chosen)
		if err != nil {
			one.Description = "not readable: " + err.Error()
		} else {
			one.Description, one.Provides, one.Requires, one.License = meta.Description, meta.Provides, meta.Requires, meta.License
			one.Options = fields(meta, sent)
		}
		c.Choices = append(c.Choices, one)
	}
	return c, nil
}

// patterns lists the versions of an add-on, and the patterns of its release lines.
func patterns(a addOn) []string {
	all := []string{"latest"}
	seen := map[string]int{}
	for _, p := range a.Versions {
		seen[line(p.Version)]++
	}
	for _, p := range a.Versions {
		if l := line(p.Version); l != "" && seen[l] > 1 && !slices.Contains(all, l) {
			all = append(all, l)
		}
		all = append(all, p.Version)
	}
	return all
}

// line is the pattern of a version's minor release: 1.36.x for 1.36.3.
func line(version string) string {
	parts := strings.Split(version, ".")
	if len(parts) != 3 {
		return ""
	}
	return parts[0] + "." + parts[1] + ".x"
}

// selected returns the package that a version or pattern resolves to, as far as the form needs it.
func selected(a addOn, version string) release.Package {
	prefix, isLine := strings.CutSuffix(version, ".x")
	for _, p := range a.Versions {
		if p.Version == version || isLine && strings.HasPrefix(p.Version, prefix+".") {
			return p
		}
	}
	return a.Versions[0]
}

// preview fills in the result, and returns the Installer if it makes a cluster.
func (s *Site) preview(r *http.Request, c *composed) *spec.Installer {
	c.Result.Empty = c.Further == "" && !slices.ContainsFunc(c.Choices, func(one choice) bool { return one.Version != "" })
	if c.Result.Empty {
		return nil
	}
	i, err := installer(c.Choices, c.Further)
	if err != nil {
		c.Result.Wrong = strings.Split(err.Error(), "\n")
		return nil
	}
	text, err := i.Canonical()
	if err != nil {
		c.Result.Wrong = []string{err.Error()}
		return nil
	}
	c.Result.YAML = string(text)
	plan, err := s.source.Plan(r, i)
	if err != nil {
		c.Result.Wrong = strings.Split(err.Error(), "\n")
		return nil
	}
	c.Result.Size = plan.Size
	for _, f := range i.Check() {
		c.Result.Warnings = append(c.Result.Warnings, f.Message+" ("+f.Hint+")")
	}
	asked := map[string]string{}
	for _, a := range i.AddOns {
		asked[a.Name] = a.Version
	}
	for _, a := range plan.Installer.AddOns {
		if was := asked[a.Name]; was != a.Version {
			c.Result.Resolved = append(c.Result.Resolved, fmt.Sprintf("%s %s is %s today", a.Name, was, a.Version))
		}
	}
	return i
}

// store stores a checked Installer.
func (s *Site) store(r *http.Request, i *spec.Installer, out *result) error {
	id, err := s.source.Create(r, i)
	if err != nil {
		return err
	}
	out.Script, out.Bundle, err = s.source.Links(r, id)
	if err == nil {
		out.ID = id
	}
	return err
}
