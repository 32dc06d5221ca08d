// Package report keeps the results of tests in a folder that any web server can serve: pages for people, and JUnit XML, TAP and
// JSON for programs. A result is on the disk as soon as its test has ended, so the folder is also the journal of a run.
//
// The pages need no JavaScript. They show text from tests and logs, all of it escaped.
package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sealift/sealift/internal/atomicfile"
	"github.com/sealift/sealift/testgrid/machine"
)

// Verdict is the outcome of a test.
type Verdict string

// The verdicts. Flaky is that of several attempts with different results. Running and Waiting are those of unfinished tests.
const (
	Passed  Verdict = "passed"
	Failed  Verdict = "failed"
	Skipped Verdict = "skipped" // it did not run; see the reason
	Flaky   Verdict = "flaky"
	Running Verdict = "running"
	Waiting Verdict = "waiting"
)

// Result is one attempt at one test on one system.
type Result struct {
	Test     string   `json:"test"` // ID
	Name     string   `json:"name"`
	System   string   `json:"system"`
	Attempt  int      `json:"attempt"` // from 1
	Verdict  Verdict  `json:"verdict"`
	Resumed  bool     `json:"resumed,omitempty"` // on machines on which an earlier attempt had failed
	Reason   string   `json:"reason,omitempty"`  // of a failure or a skip, with the next step
	Warnings []string `json:"warnings,omitempty"`
	// Digest covers all inputs: the test, the bundle, the system. The same digest need not run again.
	Digest    string `json:"digest,omitempty"`
	Bundle    string `json:"bundle,omitempty"` // digest of the bundle's index
	Installer string `json:"installer,omitempty"`
	// Packages are those of the bundles: the digest of each, by name and version, such as "kubernetes 1.36.3".
	Packages  map[string]string `json:"packages,omitempty"`
	Reproduce string            `json:"reproduce,omitempty"` // command line
	Started   time.Time         `json:"started"`
	Took      Seconds           `json:"seconds"`
	Steps     []Step            `json:"steps,omitempty"`
	// Violations is the traffic that left the machines of an airgap test.
	Violations []machine.Connection `json:"violations,omitempty"`
	// Analysis has the findings of the analyzers in the support bundles.
	Analysis []Analysis `json:"analysis,omitempty"`
	// Machines are those of a running test, and those kept after a failure. The first is node 1.
	Machines []Machine `json:"machines,omitempty"`
	Files    []string  `json:"files,omitempty"` // support bundles and others, beside the result
}

// Analysis is a finding about one node.
type Analysis struct {
	Node    int    `json:"node"`
	Check   string `json:"check"`
	Status  string `json:"status"` // warn or fail
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
}

// Machine is one that a person can enter.
type Machine struct {
	Name    string   `json:"name"`
	Address string   `json:"address"`
	Enter   []string `json:"enter"` // command line of a shell there
}

// Command is the command line, for a shell.
func (m Machine) Command() string { return strings.Join(m.Enter, " ") }

// Step is one part of a test. Its log is the file Log beside the result.
type Step struct {
	Name    string  `json:"name"`
	Begin   Seconds `json:"begin"` // since the test's start
	Took    Seconds `json:"seconds"`
	Verdict Verdict `json:"verdict"`
	Error   string  `json:"error,omitempty"`
	Log     string  `json:"log,omitempty"`
	// Input is the digest of everything that decides the step's result. A step that passed with the same input need not run again
	// on the same machines.
	Input string `json:"input,omitempty"`
}

// Seconds is a duration as in JSON and JUnit.
type Seconds float64

// Since returns the seconds between two times.
func Since(begin, end time.Time) Seconds {
	return Seconds(end.Sub(begin).Round(time.Millisecond).Seconds())
}

// String is 1m23s, or 0.4s.
func (s Seconds) String() string {
	d := time.Duration(float64(s) * float64(time.Second))
	if d < 10*time.Second {
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

// The files of an attempt in its own folder: its result, and its progress until then.
const (
	resultName  = "result.json"
	runningName = "running.json"
)

// Folder is a report's folder.
type Folder struct{ Path string }

// Dir returns the folder of one attempt, which has its logs.
func (f Folder) Dir(test, system string, attempt int) string {
	return filepath.Join(f.Path, "results", test, system, strconv.Itoa(attempt))
}

// Save writes a result. It is complete or absent, whatever happens.
func (f Folder) Save(r Result) error {
	if err := f.save(r, resultName); err != nil {
		return err
	}
	return atomicfile.Remove(filepath.Join(f.Dir(r.Test, r.System, r.Attempt), runningName))
}

// Note writes the progress of a test. Save ends that.
func (f Folder) Note(r Result) error {
	r.Verdict = Running
	return f.save(r, runningName)
}

func (f Folder) save(r Result, name string) error {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("save the result of %s: %w", r.Test, err)
	}
	dir := f.Dir(r.Test, r.System, r.Attempt)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("save the result of %s: %w", r.Test, err)
	}
	return atomicfile.Write(filepath.Join(dir, name), append(data, '\n'))
}

// Load returns a result that an earlier run has saved, or nil.
func (f Folder) Load(test, system string, attempt int) (*Result, error) {
	return ReadResult(f.Dir(test, system, attempt))
}

// ReadResult returns the result in the folder of an attempt, or nil.
func ReadResult(dir string) (*Result, error) { return load(filepath.Join(dir, resultName)) }

func load(path string) (*Result, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	r := &Result{}
	if err = json.Unmarshal(data, r); err == nil {
		err = r.Check()
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w; remove it to rerun the test", path, err)
	}
	return r, nil
}

// Check refuses a result whose files are not in the folder of its attempt. Pages show their content.
func (r Result) Check() error {
	names := slices.Clone(r.Files)
	for _, s := range r.Steps {
		if s.Log != "" {
			names = append(names, s.Log)
		}
	}
	for _, name := range names {
		if name != filepath.Base(name) || name == "." || name == ".." {
			return fmt.Errorf("%q is not a file beside the result", name)
		}
	}
	return nil
}
