// Package remote runs tests of the grid in pods of a cluster: one Job, with an index for each attempt at a test on a system. The
// machines of a test are those that HOSTS.yaml names, as everywhere.
//
// A store has all that the coordinator and the pods share. If either is lost, the next one continues:
//
//	batch/…          the work and its results, see package batch
//	specs/DIGEST     files of tests, named by their sha256
//	tests/…, runs/…  logs and verdicts, see package history
package remote

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/sealift/sealift/batch"
	"github.com/sealift/sealift/kube"
	"github.com/sealift/sealift/store"
	"github.com/sealift/sealift/testgrid/gridspec"
	"github.com/sealift/sealift/testgrid/history"
	"github.com/sealift/sealift/testgrid/report"
	"github.com/sealift/sealift/testgrid/runner"
)

// The longest that a test may take, with its wait for machines, and the longest that all of a run may take.
const (
	TestTime = 24 * time.Hour
	RunTime  = 7 * TestTime
)

// Coordinator is a runner.Remote that does attempts in pods. Pods call Serve.
type Coordinator struct {
	Cluster *kube.Cluster
	Store   store.Store // of results
	Batch   batch.Options
	// Setting is all that decides the results besides the tests.
	Setting Setting
	Values  gridspec.Values
}

// Setting is where tests run, and which packages they install. If it changes, pods run the tests again.
type Setting struct {
	batch.Program

	Hosts    string `json:"hosts"`    // sha256 of HOSTS.yaml
	Packages string `json:"packages"` // sha256 of the index of the store with the packages
	Server   string `json:"server,omitempty"`
}

// input is the input of a pod.
type input struct {
	Setting

	File    string          `json:"file"`  // its name
	Tests   string          `json:"tests"` // its sha256
	Values  gridspec.Values `json:"values"`
	Test    string          `json:"test"`
	System  string          `json:"system"`
	Attempt int             `json:"attempt"`
}

func specKey(digest string) string { return "specs/" + digest }

// Do implements runner.Remote.
func (c Coordinator) Do(ctx context.Context, attempts []runner.Attempt, stands func(report.Verdict) bool, ended func(report.Result)) error {
	digests := map[string]string{}
	var inputs []json.RawMessage
	for _, a := range attempts {
		if digests[a.File] == "" {
			d, err := c.saveSpec(ctx, a.File)
			if err != nil {
				return err
			}
			digests[a.File] = d
		}
		data, err := json.Marshal(input{c.Setting, a.File, digests[a.File], c.Values, a.Test, a.System, a.Number})
		if err != nil {
			return err
		}
		inputs = append(inputs, data)
	}
	o := c.Batch
	o.Current = func(output json.RawMessage) bool {
		var result report.Result
		return json.Unmarshal(output, &result) == nil && stands(result.Verdict)
	}
	o.Finished = func(place int, outcome batch.Outcome) { ended(resultOf(attempts[place], outcome)) }
	_, err := batch.Run(ctx, c.Cluster, c.Store, inputs, o)
	return err
}

// saveSpec stores a file of tests and returns its digest.
func (c Coordinator) saveSpec(ctx context.Context, name string) (string, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return "", fmt.Errorf("read tests: %w", err)
	}
	value := store.Bytes(data)
	if _, err := c.Store.Put(ctx, specKey(value.SHA256), value); err != nil {
		return "", fmt.Errorf("store the tests of %s: %w", name, err)
	}
	return value.SHA256, nil
}

// resultOf returns the result of an attempt. A piece fails if its pod could not run the test.
func resultOf(a runner.Attempt, outcome batch.Outcome) report.Result {
	var result report.Result
	failure := outcome.Failure
	if failure == "" {
		err := json.Unmarshal(outcome.Output, &result)
		if err == nil && (result.Test != a.Test || result.System != a.System || result.Attempt != a.Number) {
			err = errors.New("it belongs to another test")
		}
		if err == nil {
			err = result.Check()
		}
		if err == nil {
			result.Machines = nil // 'sealift testgrid enter' would run commands from the store
			return result
		}
		failure = fmt.Sprintf("its result in the store is damaged: %v", err)
	}
	return report.Result{Test: a.Test, Name: a.Test, System: a.System, Attempt: a.Number, Verdict: report.Failed, Reason: "the pod of the test: " + failure}
}

// Serve runs one test in a pod, on the machines of o.Hosts, with the packages of o.Store. setting must equal the coordinator's,
// except for the packages.
func Serve(ctx context.Context, s store.Store, getenv func(string) string, setting Setting, o runner.Options) error {
	return batch.Serve(ctx, s, getenv, func(ctx context.Context, piece json.RawMessage) (_ any, err error) {
		var in input
		if err := json.Unmarshal(piece, &in); err != nil {
			return nil, err
		}
		if err := in.Check(setting.Sealift); err != nil {
			return nil, err
		}
		if setting.Hosts != in.Hosts {
			return nil, errors.New("HOSTS.yaml of the pod differs from that of the run")
		}
		file, err := loadSpec(ctx, s, in)
		if err != nil {
			return nil, err
		}
		if o.Out, err = os.MkdirTemp("", "sealift-test-*"); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(o.Out)) }()
		o.Files, o.Tests, o.Systems, o.History = []*gridspec.File{file}, []string{in.Test}, []string{in.System}, &history.History{Store: s}
		o.Part = &runner.Part{Attempt: in.Attempt, Owner: owner(piece)}
		cells, err := runner.Run(ctx, o)
		if err != nil {
			return nil, err
		}
		return cells[0].Attempts[0], nil
	})
}

// owner names the machines of an attempt. A pod that replaces a lost one has the same input, and removes its leftovers. A run of the
// same tests with other packages has another input, and separate machines.
func owner(piece json.RawMessage) string {
	sum := sha256.Sum256(piece)
	return hex.EncodeToString(sum[:8])
}

func loadSpec(ctx context.Context, s store.Store, in input) (*gridspec.File, error) {
	value, err := s.Get(ctx, specKey(in.Tests))
	if err != nil {
		return nil, fmt.Errorf("read the tests of %s: %w", in.File, err)
	}
	defer value.Close()
	data, err := io.ReadAll(io.NewSectionReader(value, 0, min(value.Size(), gridspec.MaxSize+1)))
	if err != nil {
		return nil, fmt.Errorf("read the tests of %s: %w", in.File, err)
	}
	if got := store.Bytes(data).SHA256; got != in.Tests {
		return nil, fmt.Errorf("the tests of %s have the digest %s in the store, not %s", in.File, got, in.Tests)
	}
	f, err := gridspec.Parse(in.File, strings.NewReader(string(data)), in.Values)
	if f != nil { // mistakes in other tests were reported where the run began
		return f, nil
	}
	return nil, err
}
