package xccdf

import (
	"encoding/xml"
	"io"
	"time"

	"github.com/sealift/sealift/installer/inspect/cis"
)

// Namespaces of ARF and of what it refers to.
const (
	arfSpace     = "http://scap.nist.gov/schema/asset-reporting-format/1.1"
	coreSpace    = "http://scap.nist.gov/schema/reporting-core/1.1"
	assetSpace   = "http://scap.nist.gov/schema/asset-identification/1.1"
	relationship = "http://scap.nist.gov/specifications/arf/vocabulary/relationships/1.0#"
	streamSpace  = "http://scap.nist.gov/schema/scap/source/1.2"
	linkSpace    = "http://www.w3.org/1999/xlink"
)

// The parts of a collection, which its relations connect.
const (
	requestID   = "collection1"
	assetID     = "asset0"
	reportID    = "xccdf1"
	componentID = "scap_dev.sealift_comp_cis-kubernetes"
	referenceID = "scap_dev.sealift_cref_cis-kubernetes"
)

// ARF writes a collection of the benchmark as a data stream, the node and its result.
func ARF(w io.Writer, r cis.Report, o Options) error {
	at := o.Time.UTC().Format(time.RFC3339)
	return write(w, collection{
		ARF: arfSpace, Core: coreSpace, AI: assetSpace,
		Relationships: relations{Vocabulary: relationship, All: []relation{
			{Type: "arfvocab:createdFor", Subject: reportID, Ref: requestID},
			{Type: "arfvocab:isAbout", Subject: reportID, Ref: assetID},
		}},
		Request: request{ID: requestID, Streams: streams{Space: streamSpace, Link: linkSpace, ID: "scap_dev.sealift_collection_cis-kubernetes", Schematron: "1.3",
			Stream: stream{ID: "scap_dev.sealift_datastream_cis-kubernetes", Time: at, Version: "1.3", UseCase: "OTHER",
				Checklist: componentRef{ID: referenceID, Type: "simple", Href: "#" + componentID}},
			Component: component{ID: componentID, Time: at, Benchmark: benchmarkOf(r)}}},
		Asset:  asset{ID: assetID, Host: name(r.Node)},
		Report: report{ID: reportID, Result: resultOf(r, o)},
	})
}

type collection struct {
	XMLName       xml.Name  `xml:"arf:asset-report-collection"`
	ARF           string    `xml:"xmlns:arf,attr"`
	Core          string    `xml:"xmlns:core,attr"`
	AI            string    `xml:"xmlns:ai,attr"`
	Relationships relations `xml:"core:relationships"`
	Request       request   `xml:"arf:report-requests>arf:report-request"`
	Asset         asset     `xml:"arf:assets>arf:asset"`
	Report        report    `xml:"arf:reports>arf:report"`
}

type relations struct {
	Vocabulary string     `xml:"xmlns:arfvocab,attr"`
	All        []relation `xml:"core:relationship"`
}

type relation struct {
	Type    string `xml:"type,attr"`
	Subject string `xml:"subject,attr"`
	Ref     string `xml:"core:ref"`
}

type request struct {
	ID      string  `xml:"id,attr"`
	Streams streams `xml:"arf:content>ds:data-stream-collection"`
}

type streams struct {
	Space      string    `xml:"xmlns:ds,attr"`
	Link       string    `xml:"xmlns:xlink,attr"`
	ID         string    `xml:"id,attr"`
	Schematron string    `xml:"schematron-version,attr"`
	Stream     stream    `xml:"ds:data-stream"`
	Component  component `xml:"ds:component"`
}

type stream struct {
	ID        string       `xml:"id,attr"`
	Time      string       `xml:"timestamp,attr"`
	Version   string       `xml:"scap-version,attr"`
	UseCase   string       `xml:"use-case,attr"`
	Checklist componentRef `xml:"ds:checklists>ds:component-ref"`
}

type componentRef struct {
	ID   string `xml:"id,attr"`
	Type string `xml:"xlink:type,attr"`
	Href string `xml:"xlink:href,attr"`
}

type component struct {
	ID        string    `xml:"id,attr"`
	Time      string    `xml:"timestamp,attr"`
	Benchmark benchmark `xml:"Benchmark"`
}

type asset struct {
	ID   string `xml:"id,attr"`
	Host string `xml:"ai:computing-device>ai:hostname"`
}

type report struct {
	ID     string     `xml:"id,attr"`
	Result testResult `xml:"arf:content>TestResult"`
}
