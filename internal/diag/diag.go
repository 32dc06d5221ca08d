// Package diag describes mistakes in files that people write: what is wrong, where, and what to do about it.
//
// The readers of such files (Manifest, Installer, addon.yaml) share it. They collect findings instead of stopping at the
// first, so that one run names every mistake. The package never prints and never exits.
package diag

import (
	"fmt"
	"sort"
	"strings"
)

// Pos is a position in a text file. Line and Col count from 1; Col counts bytes, as compilers do. A zero Line means the whole
// file.
type Pos struct {
	File string `json:"file"`
	Line int    `json:"line,omitempty"`
	Col  int    `json:"column,omitempty"`
}

// String is file:line:col, the form that editors and terminals turn into a link.
func (p Pos) String() string {
	if p.Line == 0 {
		return p.File
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Col)
}

// Severity separates errors, which must be corrected, from warnings.
type Severity string

// The severities of a finding.
const (
	Error   Severity = "error"
	Warning Severity = "warning"
)

// Finding is one mistake at one position. Hint says what to do about it and may be empty.
type Finding struct {
	Pos      Pos      `json:"position"`
	Severity Severity `json:"severity"`
	Message  string   `json:"message"`
	Hint     string   `json:"hint,omitempty"`
}

// Error returns the finding on one line: "file:line:col: error: message (hint)".
func (f Finding) Error() string {
	s := fmt.Sprintf("%s: %s: %s", f.Pos, f.Severity, f.Message)
	if f.Hint != "" {
		s += " (" + f.Hint + ")"
	}
	return s
}

// Errors is a list of findings as one error, one finding per line.
type Errors []Finding

func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, f := range e {
		lines[i] = f.Error()
	}
	return strings.Join(lines, "\n")
}

// List collects findings. Its zero value is ready for use.
type List struct {
	// Most is the maximum number of findings that are kept, for files from untrusted sources. 0 means no limit.
	Most     int
	findings []Finding
}

// Full reports whether the list has reached Most. A reader can stop then.
func (l *List) Full() bool { return l.Most > 0 && len(l.findings) >= l.Most }

// Errorf adds an error; hint may be empty. Of a long text among args, the message has the beginning.
func (l *List) Errorf(pos Pos, hint, format string, args ...any) {
	shorten(args)
	l.Add(Finding{Pos: pos, Severity: Error, Message: fmt.Sprintf(format, args...), Hint: hint})
}

// Warnf adds a warning; hint may be empty. Of a long text among args, the message has the beginning.
func (l *List) Warnf(pos Pos, hint, format string, args ...any) {
	shorten(args)
	l.Add(Finding{Pos: pos, Severity: Warning, Message: fmt.Sprintf(format, args...), Hint: hint})
}

const (
	// maxWhole is the largest text that Short returns whole, in bytes.
	maxWhole = 500
	// maxShown is what Short returns of a larger one.
	maxShown = 200
)

// Short returns a text, or the beginning of one that is longer than what people write into a message: a document from a stranger may have
// one long value in a hundred places.
func Short(text string) string {
	if len(text) <= maxWhole {
		return text
	}
	return strings.ToValidUTF8(text[:maxShown], "") + "…" // without a part of a character
}

func shorten(args []any) {
	for n, arg := range args {
		switch arg := arg.(type) {
		case string:
			args[n] = Short(arg)
		case error:
			args[n] = Short(arg.Error())
		}
	}
}

// Add adds findings that were collected elsewhere.
func (l *List) Add(findings ...Finding) {
	if l.Most > 0 {
		findings = findings[:min(len(findings), max(0, l.Most-len(l.findings)))]
	}
	l.findings = append(l.findings, findings...)
}

// Findings returns all findings, sorted by line and column.
func (l *List) Findings() []Finding {
	sorted := append([]Finding(nil), l.findings...)
	sort.SliceStable(sorted, func(i, j int) bool {
		a, b := sorted[i].Pos, sorted[j].Pos
		if a.Line != b.Line {
			return a.Line < b.Line
		}
		return a.Col < b.Col
	})
	return sorted
}

// Err returns the errors among the findings as an Errors, or nil when there are none. Warnings are left out.
func (l *List) Err() error {
	return Err(l.Findings())
}

// Err returns the errors among findings as an Errors, or nil when there are none. Warnings are left out.
func Err(findings []Finding) error {
	var errs Errors
	for _, f := range findings {
		if f.Severity == Error {
			errs = append(errs, f)
		}
	}
	if len(errs) == 0 {
		return nil
	}
	return errs
}
