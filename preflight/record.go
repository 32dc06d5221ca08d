package preflight

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"time"

	"github.com/sealift/sealift/internal/atomicfile"
)

// Record is a report as it is kept: when it was made, for what, and what was decided.
type Record struct {
	Time    time.Time `json:"time"`
	Node    Node      `json:"node"`
	Policy  Policy    `json:"policy"`
	Refused bool      `json:"refused"`
	Report
}

// NewRecord decides on a report.
func NewRecord(n Node, p Policy, r Report) Record {
	return Record{Time: time.Now().UTC(), Node: n, Policy: p, Refused: r.Err(p) != nil, Report: r}
}

// Err is nil when the host may be changed.
func (r Record) Err() error { return r.Report.Err(r.Policy) }

// Ignored gives the failures in spite of which the work goes on.
func (r Record) Ignored() (ignored []Result) {
	for _, result := range r.Results {
		if result.Status == Fail && r.Policy.Ignore && !result.Final {
			ignored = append(ignored, result)
		}
	}
	return ignored
}

// Save keeps the record in dir, which is made, under a name with its time.
func (r Record) Save(dir string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := atomicfile.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("keep the preflight report: %w", err)
	}
	if err := atomicfile.Write(filepath.Join(dir, r.Time.UTC().Format("20060102T150405.000Z")+".json"), append(text, '\n')); err != nil {
		return fmt.Errorf("keep the preflight report: %w", err)
	}
	return nil
}
