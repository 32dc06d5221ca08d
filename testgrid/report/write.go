package report

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/sealift/sealift/internal/atomicfile"
)

// pageWriters is how many pages are written at one time. Most of the time goes into waiting for the disk.
const pageWriters = 16

// Write writes what people and programs read about these results: index.html, a page for each cell, results.json, junit.xml
// and results.tap.
func (f Folder) Write(results []Result) error {
	cells := Cells(results)
	if err := f.remember(cells); err != nil {
		return err
	}
	summary, err := f.summary()
	if err != nil {
		return err
	}
	index, err := indexPage(cells, summary, false)
	if err != nil {
		return err
	}
	var group errgroup.Group
	group.SetLimit(pageWriters)
	for _, c := range cells {
		group.Go(func() error {
			page, err := f.cellPage(c, false)
			if err == nil {
				err = f.put(c.Page(), page)
			}
			if err != nil {
				return fmt.Errorf("write the page of %s: %w", c.Test, err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	content := map[string]any{"counts": Count(cells), "cells": cells}
	if summary != "" {
		content["summary"] = summary
	}
	list, err := json.MarshalIndent(content, "", "  ")
	if err != nil {
		return err
	}
	junit, err := junitXML(cells)
	if err != nil {
		return err
	}
	for name, data := range map[string][]byte{"results.json": append(list, '\n'), "junit.xml": junit, "results.tap": tap(cells), "index.html": index} {
		if err := f.put(name, data); err != nil {
			return fmt.Errorf("write the report: %w", err)
		}
	}
	return nil
}

// summaryName is the file with a sentence about the whole run.
const summaryName = "summary.txt"

// SaveSummary writes a sentence about the whole run, for all later pages.
func (f Folder) SaveSummary(text string) error {
	return atomicfile.Write(filepath.Join(f.Path, summaryName), []byte(text+"\n"))
}

// summary returns the sentence, or "".
func (f Folder) summary() (string, error) {
	text, err := os.ReadFile(filepath.Join(f.Path, summaryName))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return strings.TrimSpace(string(text)), err
}

// put writes a file of the report, unless it has this content. Most pages do not change when one more test ends.
func (f Folder) put(name string, data []byte) error {
	path := filepath.Join(f.Path, filepath.FromSlash(name))
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, data) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { // a test that waits has no folder yet
		return err
	}
	return atomicfile.Write(path, data)
}

// The elements of JUnit XML as Jenkins and GitLab read them.
type (
	junitSuites struct {
		XMLName xml.Name     `xml:"testsuites"`
		Suites  []junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name     string      `xml:"name,attr"`
		Tests    int         `xml:"tests,attr"`
		Failures int         `xml:"failures,attr"`
		Skipped  int         `xml:"skipped,attr"`
		Time     Seconds     `xml:"time,attr"`
		Cases    []junitCase `xml:"testcase"`
	}
	junitCase struct {
		Class   string        `xml:"classname,attr"`
		Name    string        `xml:"name,attr"`
		Time    Seconds       `xml:"time,attr"`
		Failure *junitMessage `xml:"failure"`
		Skipped *junitMessage `xml:"skipped"`
	}
	junitMessage struct {
		Message string `xml:"message,attr"`
		Text    string `xml:",chardata"`
	}
)

// junitXML has a suite for each system, and a case for each attempt.
func junitXML(cells []Cell) ([]byte, error) {
	at := map[string]int{}
	var all junitSuites
	for _, c := range cells {
		i, known := at[c.System]
		if !known {
			i = len(all.Suites)
			at[c.System] = i
			all.Suites = append(all.Suites, junitSuite{Name: c.System})
		}
		s := &all.Suites[i]
		for _, a := range c.Attempts {
			name := c.Name
			if len(c.Attempts) > 1 {
				name = fmt.Sprintf("%s (attempt %d)", c.Name, a.Attempt)
			}
			jc := junitCase{Class: c.System + "." + c.Test, Name: name, Time: a.Took}
			switch a.Verdict {
			case Failed, Flaky:
				jc.Failure = &junitMessage{Message: firstLine(a.Reason), Text: a.Reason}
				s.Failures++
			case Skipped:
				jc.Skipped = &junitMessage{Message: a.Reason}
				s.Skipped++
			case Running, Waiting: // a case without a failure would be one that passed
				jc.Failure = &junitMessage{Message: notEnded, Text: notEnded}
				s.Failures++
			}
			s.Tests++
			s.Time += a.Took
			s.Cases = append(s.Cases, jc)
		}
	}
	text, err := xml.MarshalIndent(all, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write JUnit XML: %w", err)
	}
	return append([]byte(xml.Header), append(text, '\n')...), nil
}

// notEnded is the verdict for programs of a test that a killed run left unfinished.
const notEnded = "the test has not ended"

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// tap prints cells in the Test Anything Protocol, version 14. A number sign would begin a directive.
func tap(cells []Cell) []byte {
	var out bytes.Buffer
	fmt.Fprintf(&out, "TAP version 14\n1..%d\n", len(cells))
	for i, c := range cells {
		escaped := strings.NewReplacer(`\`, `\\`, "#", `\#`, "\n", " ").Replace(c.Name)
		switch c.Verdict {
		case Passed:
			fmt.Fprintf(&out, "ok %d - %s on %s\n", i+1, escaped, c.System)
		case Skipped:
			fmt.Fprintf(&out, "ok %d - %s on %s # SKIP %s\n", i+1, escaped, c.System, firstLine(c.Reason()))
		default:
			fmt.Fprintf(&out, "not ok %d - %s on %s\n  ---\n", i+1, escaped, c.System)
			if rate := c.Rate(); rate != "" {
				fmt.Fprintf(&out, "  rate: %q\n", rate)
			}
			reason := c.Reason()
			if c.Verdict == Running || c.Verdict == Waiting {
				reason = notEnded
			}
			fmt.Fprintf(&out, "  message: %q\n  ...\n", reason)
		}
	}
	return out.Bytes()
}
