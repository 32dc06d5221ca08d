package xccdf

import "encoding/xml"

// The elements of XCCDF 1.2, in the order that its schema wants.

type benchmark struct {
	XMLName     xml.Name    `xml:"Benchmark"`
	Space       string      `xml:"xmlns,attr"`
	ID          string      `xml:"id,attr"`
	Resolved    bool        `xml:"resolved,attr"`
	Lang        string      `xml:"xml:lang,attr,omitempty"`
	Status      status      `xml:"status"`
	Title       english     `xml:"title"`
	Description english     `xml:"description"`
	Version     string      `xml:"version"`
	Metadata    origin      `xml:"metadata"`
	Groups      []group     `xml:"Group"`
	Result      *testResult `xml:"TestResult"`
}

type status struct {
	Value string `xml:",chardata"`
}

type english struct {
	Lang  string `xml:"xml:lang,attr"`
	Value string `xml:",chardata"`
}

type origin struct {
	Space   string `xml:"xmlns:dc,attr"`
	Creator string `xml:"dc:creator"`
}

type group struct {
	ID    string  `xml:"id,attr"`
	Title english `xml:"title"`
	Rules []rule  `xml:"Rule"`
}

type rule struct {
	ID       string  `xml:"id,attr"`
	Selected bool    `xml:"selected,attr"`
	Weight   string  `xml:"weight,attr"`
	Severity string  `xml:"severity,attr"`
	Version  string  `xml:"version"`
	Title    english `xml:"title"`
	Ident    ident   `xml:"ident"`
}

type ident struct {
	System string `xml:"system,attr"`
	Value  string `xml:",chardata"`
}

type testResult struct {
	XMLName   xml.Name     `xml:"TestResult"`
	Space     string       `xml:"xmlns,attr"`
	ID        string       `xml:"id,attr"`
	End       string       `xml:"end-time,attr"`
	Version   string       `xml:"version,attr"`
	System    string       `xml:"test-system,attr"`
	Benchmark reference    `xml:"benchmark"`
	Title     english      `xml:"title"`
	Remark    *english     `xml:"remark"`
	Target    string       `xml:"target"`
	Facts     []fact       `xml:"target-facts>fact"`
	Results   []ruleResult `xml:"rule-result"`
	Score     score        `xml:"score"`
}

type reference struct {
	Href string `xml:"href,attr"`
	ID   string `xml:"id,attr"`
}

type fact struct {
	Name  string `xml:"name,attr"`
	Type  string `xml:"type,attr"`
	Value string `xml:",chardata"`
}

type ruleResult struct {
	Rule     string    `xml:"idref,attr"`
	Time     string    `xml:"time,attr"`
	Weight   string    `xml:"weight,attr"`
	Severity string    `xml:"severity,attr"`
	Result   string    `xml:"result"`
	Ident    ident     `xml:"ident"`
	Messages []message `xml:"message"`
}

type message struct {
	Severity string `xml:"severity,attr"`
	Value    string `xml:",chardata"`
}

type score struct {
	System  string `xml:"system,attr"`
	Maximum string `xml:"maximum,attr"`
	Value   string `xml:",chardata"`
}
