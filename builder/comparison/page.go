package comparison

import (
	"embed"
	"fmt"
	"html/template"
	"io"
	"sync"

	"github.com/sealift/sealift/manifest"
)

//go:embed page.html
var files embed.FS

var page = sync.OnceValues(func() (*template.Template, error) { return template.ParseFS(files, "page.html") })

// Section is one list of changes.
type Section struct {
	Title   string
	Changes []manifest.Change
}

// Sections lists the changes for people, without the vulnerabilities. Empty ones are among them.
func (d *Difference) Sections() []Section {
	return []Section{
		{"Add-ons", d.AddOns}, {"Images", d.Images}, {"Packages, modules and assets", d.Software}, {"Licenses", d.Licenses},
		{"Settings of the Installer", d.Settings}, {"Options of add-ons", d.Options}, {"Objects", d.Objects},
	}
}

// WritePage writes the difference as a page of HTML that needs no other file.
func (d *Difference) WritePage(w io.Writer) error {
	t, err := page()
	if err == nil {
		err = t.Execute(w, d)
	}
	if err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	return nil
}
