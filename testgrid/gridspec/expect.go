package gridspec

import (
	"fmt"
	"net/url"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/sealift/sealift/internal/strictyaml"
)

// defaultWithin is how long an expectation may take to become true. A cluster needs some time to settle after a change.
const defaultWithin = 3 * time.Minute

// expectKinds returns the keys of an expectation that set an expectation.
func expectKinds() []string {
	return []string{"nodesReady", "podsRunning", "http", "command", "noImagePulled", "bytesFetched", "took"}
}

func (p *parser) expectation(n *yaml.Node, nodes int) Expectation {
	e := Expectation{Pos: p.Pos(n), Within: defaultWithin}
	if !p.IsMapping(n, "an expectation") {
		return e
	}
	f := fields{p, p.Fields(n, "an expectation", append([]string{"within"}, expectKinds()...)...)}
	f.duration("within", &e.Within)
	kinds := 0
	for _, kind := range expectKinds() {
		if f.nodes[kind] != nil {
			kinds++
		}
	}
	if unknown := len(n.Content)/2 - len(f.nodes); kinds != 1 && unknown == 0 {
		p.Errorf(e.Pos, "one of "+strings.Join(expectKinds(), ", "), "an expectation expects %d things, not one", kinds)
	}
	f.number("nodesReady", &e.NodesReady, 1, maxNodes)
	f.text("podsRunning", &e.PodsRunning)
	f.filled("podsRunning", e.PodsRunning, "write all, or the name of a namespace")
	f.boolean("noImagePulled", &e.NoImagePulled)
	if n := f.nodes["noImagePulled"]; n != nil && strictyaml.Value(n) == false {
		p.Errorf(p.Pos(n), "write true, or leave it out", "noImagePulled must be true")
	}
	if n := f.nodes["http"]; n != nil && p.IsMapping(n, "http") {
		e.HTTP = p.http(n, nodes)
	}
	if n := f.nodes["command"]; n != nil && p.IsMapping(n, "command") {
		e.Command = p.command(n, nodes)
	}
	if n := f.nodes["bytesFetched"]; n != nil && p.IsMapping(n, "bytesFetched") {
		e.BytesFetched = &BytesFetched{Node: 1}
		of := fields{p, p.Fields(n, "bytesFetched", "node", "most")}
		of.number("node", &e.BytesFetched.Node, 1, nodes)
		of.size("most", &e.BytesFetched.Most)
		of.required(n, "bytesFetched", "most")
	}
	if n := f.nodes["took"]; n != nil && p.IsMapping(n, "took") {
		e.Took = &Took{}
		of := fields{p, p.Fields(n, "took", "part", "most")}
		of.oneOf("part", &e.Took.Part, "install", "join", "upgrade", "reset")
		of.duration("most", &e.Took.Most)
		of.required(n, "took", "part", "most")
	}
	return e
}

func (p *parser) http(n *yaml.Node, nodes int) *HTTP {
	h := &HTTP{Node: 1, Status: 200}
	f := fields{p, p.Fields(n, "http", "node", "url", "status", "contains")}
	f.number("node", &h.Node, 1, nodes)
	f.text("url", &h.URL)
	f.number("status", &h.Status, 100, 599)
	f.text("contains", &h.Contains)
	f.required(n, "http", "url")
	if at := f.nodes["url"]; at != nil {
		if u, err := url.Parse(h.URL); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			p.Errorf(p.Pos(at), "such as http://10.96.0.20:8080/", "bad URL %q", h.URL)
		}
	}
	return h
}

func (p *parser) command(n *yaml.Node, nodes int) *Command {
	c := &Command{Node: 1}
	f := fields{p, p.Fields(n, "command", "node", "run", "exit", "contains")}
	f.number("node", &c.Node, 1, nodes)
	f.text("run", &c.Run)
	f.filled("run", c.Run, "such as kubectl get nodes")
	f.number("exit", &c.Exit, 0, 255)
	f.text("contains", &c.Contains)
	f.required(n, "command", "run")
	return c
}

// String describes the expectation in a few words.
func (e Expectation) String() string {
	switch {
	case e.NodesReady > 0:
		return fmt.Sprintf("nodesReady %d", e.NodesReady)
	case e.PodsRunning != "":
		return "podsRunning " + e.PodsRunning
	case e.HTTP != nil:
		return "http " + e.HTTP.URL
	case e.Command != nil:
		line, _, _ := strings.Cut(e.Command.Run, "\n")
		return "command " + line[:min(len(line), 60)]
	case e.NoImagePulled:
		return "noImagePulled"
	case e.BytesFetched != nil:
		return fmt.Sprintf("bytesFetched on node %d", e.BytesFetched.Node)
	case e.Took != nil:
		return "took " + e.Took.Part
	}
	return "nothing"
}
