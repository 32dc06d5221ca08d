package preflight

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"time"

	"github.com/sealift/sealift/internal/atomicfile"
)

// Record is a stored report with its time, its host and its decision.
type Record struct {
	Time    time.Time `json:"time"`
	Node    Node      `json:"node"`
	Policy  Policy    `json:"policy"`
	Refused bool      `json:"refused"`
	Report
}

// NewRecord decides about a report.
func NewRecord(n Node, p Policy, r Report) Record {
	return Record{Time: time.Now().UTC(), Node: n, Policy: p, Refused: r.Err(p) != nil, Report: r}
}

// Err returns nil if the install may change the host.
func (r Record) Err() error { return r.Report.Err(r.Policy) }

// Ignored returns the failures that the policy ignores.
func (r Record) Ignored() (ignored []Result) {
	for _, result := range r.Results {
		if result.Status == Fail && r.Policy.Ignore && !result.Final {
			ignored = append(ignored, result)
		}
	}
	return ignored
}

// Save writes the record to dir under a name with its time. It creates dir.
func (r Record) Save(dir string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := atomicfile.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("save the preflight report: %w", err)
	}
	if err := atomicfile.Write(filepath.Join(dir, r.Time.UTC().Format("20060102T150405.000Z")+".json"), append(text, '\n')); err != nil {
		return fmt.Errorf("save the preflight report: %w", err)
	}
	return nil
}
