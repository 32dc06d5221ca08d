package report

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
)

//go:embed pages
var pages embed.FS

// Sign is a verdict's shape, for people who do not distinguish colours.
func Sign(v Verdict) string {
	return map[Verdict]string{Passed: "✓", Failed: "✗", Flaky: "≈", Skipped: "–", Running: "▶", Waiting: "…"}[v]
}

// templates are the pages. Each has the same head.
var templates = sync.OnceValues(func() (*template.Template, error) {
	return template.New("").Funcs(template.FuncMap{"sign": Sign}).ParseFS(pages, "pages/*.html")
})

func render(name string, data any) ([]byte, error) {
	t, err := templates()
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := t.ExecuteTemplate(&out, name, data); err != nil {
		return nil, fmt.Errorf("render %s: %w", name, err)
	}
	return out.Bytes(), nil
}

// Page is the path of a cell's page in the report.
func (c Cell) Page() string { return "results/" + c.Test + "/" + c.System + "/index.html" }

// row is one test in the matrix. A cell is nil where the test was not asked to run.
type row struct {
	Name  string
	Cells []*Cell
}

// Class names the verdict of all cells of a row for the page's filters.
func (r row) Class() string {
	var all []Verdict
	for _, c := range r.Cells {
		if c != nil {
			all = append(all, c.Verdict)
		}
	}
	if len(slices.Compact(slices.Sorted(slices.Values(all)))) != 1 {
		return "mixed"
	}
	return "all-" + string(all[0])
}

// indexPage renders the matrix, with a sentence about the run if there is one. A live page changes while tests run.
func indexPage(cells []Cell, summary string, live bool) ([]byte, error) {
	var systems []string
	for _, c := range cells {
		if !slices.Contains(systems, c.System) {
			systems = append(systems, c.System)
		}
	}
	slices.Sort(systems)
	var rows []row
	last := ""
	for i := range cells {
		c := &cells[i]
		if len(rows) == 0 || c.Test != last {
			rows = append(rows, row{Name: c.Name, Cells: make([]*Cell, len(systems))})
			last = c.Test
		}
		rows[len(rows)-1].Cells[slices.Index(systems, c.System)] = c
	}
	return render("index.html", map[string]any{"Title": "Test grid", "Counts": Count(cells), "Summary": summary, "Systems": systems, "Rows": rows, "Live": live})
}

// maxLog is how much of a log a page shows, from its end. The whole log is a file beside it.
const maxLog = 16 << 10

// shownStep is a step with the end of its log, and its position on the time line in percent.
type shownStep struct {
	Step
	Link  string
	Text  string
	Left  string
	Width string
	Open  bool
}

type shownAttempt struct {
	Result
	Steps []shownStep
	Files []string
	// Shown has the same steps, but the failed one first.
	Shown []shownStep
}

func (f Folder) cellPage(c Cell, live bool) ([]byte, error) {
	var attempts []shownAttempt
	for _, a := range c.Attempts {
		s := shownAttempt{Result: a}
		prefix := strconv.Itoa(a.Attempt) + "/"
		for _, step := range a.Steps {
			shown := shownStep{Step: step, Open: step.Verdict == Failed || step.Verdict == Running}
			if step.Log != "" {
				shown.Link = prefix + step.Log
				text, err := tailOf(filepath.Join(f.Dir(a.Test, a.System, a.Attempt), step.Log))
				if err != nil {
					return nil, err
				}
				shown.Text = text
			}
			whole := max(float64(a.Took), float64(step.Begin), 0.001)
			shown.Left = fmt.Sprintf("%.2f", min(99, 100*float64(step.Begin)/whole))
			shown.Width = fmt.Sprintf("%.2f", max(0.5, min(100-100*float64(step.Begin)/whole, 100*float64(step.Took)/whole)))
			s.Steps = append(s.Steps, shown)
		}
		for _, file := range a.Files {
			s.Files = append(s.Files, prefix+file)
		}
		s.Shown = slices.Clone(s.Steps)
		slices.SortStableFunc(s.Shown, func(a, b shownStep) int { return failedFirst(a.Verdict) - failedFirst(b.Verdict) })
		attempts = append(attempts, s)
	}
	return render("cell.html", map[string]any{"Title": c.Name + " on " + c.System, "Cell": c, "Attempts": attempts, "Live": live})
}

func failedFirst(v Verdict) int {
	if v == Failed {
		return 0
	}
	return 1
}

// tailOf reads the end of a log. A log that is gone has no text.
func tailOf(path string) (string, error) {
	file, err := os.Open(path)
	if os.IsNotExist(err) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(io.NewSectionReader(file, max(0, info.Size()-maxLog), maxLog))
	if err != nil {
		return "", err
	}
	if info.Size() > maxLog {
		if _, rest, ok := bytes.Cut(text, []byte("\n")); ok {
			text = append([]byte("…\n"), rest...)
		}
	}
	return strings.ToValidUTF8(string(text), "�"), nil
}
