// Package xccdf writes a report of package cis for programs of auditors: as XCCDF 1.2 (NIST IR 7275), a benchmark with the result of one
// node, and as ARF 1.1 (NIST IR 7694), where a collection also describes the node.
//
// The documents describe checks and results. They have nothing that could be evaluated: only 'sealift preflight cis' compares a node. The
// same report at the same time gives the same bytes.
package xccdf

import (
	"encoding/xml"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/sealift/sealift/installer/inspect/cis"
)

// Namespaces of the standards.
const (
	namespace    = "http://checklists.nist.gov/xccdf/1.2"
	metadata     = "http://purl.org/dc/elements/1.1/"
	numberSystem = "https://www.cisecurity.org/benchmark/kubernetes" // of idents: numbers of the CIS Kubernetes Benchmark
	scoring      = "urn:xccdf:scoring:flat-unweighted"
)

// Options add to the document what a report lacks.
type Options struct {
	Time    time.Time // when the node was compared; written in UTC, in seconds
	Program string    // version of the program that compared it
}

// XCCDF writes a Benchmark with all checks of the report's edition, and one TestResult.
func XCCDF(w io.Writer, r cis.Report, o Options) error {
	b := benchmarkOf(r)
	result := resultOf(r, o)
	b.Result = &result
	return write(w, b)
}

func write(w io.Writer, document any) error {
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	e := xml.NewEncoder(w)
	e.Indent("", "  ")
	if err := e.Encode(document); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

// id returns an identifier in the form of XCCDF, for a kind such as rule.
func id(kind, name string) string { return "xccdf_dev.sealift_" + kind + "_" + name }

func benchmarkID(r cis.Report) string { return id("benchmark", "cis-kubernetes-"+r.Edition.Version) }
func ruleID(number string) string     { return id("rule", "cis-"+number) }

// name returns a node's name as a part of an identifier.
func name(node string) string {
	return strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '-' {
			return c
		}
		return '-'
	}, node)
}

// benchmarkOf returns the edition's checks by their sections, without results.
func benchmarkOf(r cis.Report) benchmark {
	b := benchmark{Space: namespace, ID: benchmarkID(r), Resolved: true, Status: status{"incomplete"}, Title: text(r.Benchmark),
		Description: text("Checks of 'sealift preflight cis', by the numbers of the benchmark. The titles are Sealift's own words; CIS publishes the reasons. " + r.Note),
		Version:     r.Edition.Version, Metadata: origin{Space: metadata, Creator: "Sealift"}}
	for _, one := range r.Results {
		section := cis.Section(one.ID)
		if n := len(b.Groups); n == 0 || b.Groups[n-1].ID != id("group", "cis-"+section) {
			b.Groups = append(b.Groups, group{ID: id("group", "cis-"+section), Title: text(section + " " + cis.SectionTitle(section))})
		}
		last := &b.Groups[len(b.Groups)-1]
		last.Rules = append(last.Rules, rule{ID: ruleID(one.ID), Selected: true, Weight: "1.0", Severity: "unknown", Version: one.ID,
			Title: text(one.ID + " " + one.Title), Ident: ident{numberSystem, one.ID}})
	}
	return b
}

// resultOf returns what was found on the node.
func resultOf(r cis.Report, o Options) testResult {
	at := o.Time.UTC().Format(time.RFC3339)
	t := testResult{Space: namespace, ID: id("testresult", name(r.Node)+"-"+o.Time.UTC().Format("20060102T150405Z")), End: at, Version: r.Edition.Version,
		System: "cpe:/a:sealift:sealift:" + name(o.Program), Benchmark: reference{Href: "#" + benchmarkID(r), ID: benchmarkID(r)},
		Title: text(r.Benchmark + " on node " + r.Node), Target: clean(r.Node), Facts: []fact{
			{"urn:xccdf:fact:asset:identifier:host_name", "string", clean(r.Node)},
			{"urn:xccdf:fact:scanner:name", "string", "sealift preflight cis"},
			{"urn:xccdf:fact:scanner:version", "string", clean(o.Program)},
			{"urn:sealift:fact:kubernetes-version", "string", clean(r.Kubernetes)},
		}}
	if r.Note != "" {
		t.Remark = &english{"en", clean("The edition was " + r.Note + ".")}
	}
	passed, counted := 0, 0
	for _, one := range r.Results {
		result := ruleResult{Rule: ruleID(one.ID), Time: at, Weight: "1.0", Severity: "unknown", Result: outcome(one), Ident: ident{numberSystem, one.ID}}
		if one.Found != "" {
			result.Messages = append(result.Messages, message{"info", clean("found: " + one.Found)})
		}
		if one.Reason != "" {
			result.Messages = append(result.Messages, message{"info", clean(one.Reason)})
		}
		t.Results = append(t.Results, result)
		if one.Status != cis.NotApplicable {
			counted++
		}
		if one.Status == cis.Met {
			passed++
		}
	}
	t.Score = score{scoring, strconv.Itoa(counted), strconv.Itoa(passed)}
	return t
}

// outcome is a result in the words of XCCDF 1.2, table 26.
func outcome(r cis.Result) string {
	switch {
	case r.Status == cis.Met:
		return "pass"
	case r.Status == cis.NotMet:
		return "fail"
	case r.Unchecked:
		return "notchecked"
	}
	return "notapplicable"
}

// clean replaces line breaks and control characters, which names and values of a node may have, so that a value is one line of text.
func clean(value string) string {
	return strings.Map(func(c rune) rune {
		if c < ' ' || c >= 0x7f && c < 0xa0 {
			return '\uFFFD'
		}
		return c
	}, strings.ToValidUTF8(value, "\uFFFD"))
}

// text is a text in English.
func text(value string) english { return english{"en", clean(strings.TrimSpace(value))} }
