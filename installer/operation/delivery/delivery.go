// Package delivery brings the images of a bundle to all nodes of a cluster. A control plane puts the bundle on its shelf and asks the
// agents of all nodes, its own too, to load the images from there: see packages share and agent.
//
// Killed at any moment, the same command goes on: a node does not fetch what it has.
package delivery

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/bundle/ocilayout"
	"github.com/sealift/sealift/bundle/signature"
	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/host/bundlepolicy"
	"github.com/sealift/sealift/installer/install"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/installer/operation"
	"github.com/sealift/sealift/installer/operation/intent"
	"github.com/sealift/sealift/installer/operation/record"
	"github.com/sealift/sealift/internal/hostpath"
)

// Kind is a delivery of images.
var Kind = operation.Kind{Name: record.Images, Asks: intent.Images, Roles: []intent.Role{intent.Worker, intent.ControlPlane}, Apply: load}

// stage is the only one: atOnce nodes fetch from the leader at the same time. A node that fails does not stop the others.
const (
	stage  = "images/load"
	atOnce = 4
)

// params name the bundle by the sha256 of its index, in hex.
type params struct {
	Index string `json:"index"`
}

// load loads the images that the control plane that asks has on its shelf, as far as this node runs them. Existing ones are not fetched.
func load(ctx context.Context, h operation.Host, r operation.Request) (err error) {
	var p params
	if err := json.Unmarshal(r.Params, &p); err != nil || !intent.IsSHA256(p.Index) {
		return errors.Join(errors.New("the request for images has no sha256 of a bundle"), err)
	}
	client, err := h.Server()
	if err != nil {
		return err
	}
	archive, err := client.Shelved(ctx, p.Index)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, archive.Close()) }()
	_, err = install.LoadNodeImages(ctx, archive, h.Worker, func(ref string) { h.Step("load " + ref) })
	return err
}

// Options select what is delivered. Archive and Open are required.
type Options struct {
	Root string // install root; "" is the default
	// Archive is a bundle or a package, or the folder into which one was unpacked.
	Archive string
	// Open opens it. One that leaves out files has its base. Run closes it.
	Open func() (*bundle.Archive, error)
	// Trusted are public keys. One of them must have signed the archive or each of its packages. If there are none, signatures
	// are not checked.
	Trusted []signature.PublicKey
	// Say is called with progress, one line at a time.
	Say func(string)
}

// Result lists the nodes that have the images.
type Result struct {
	Nodes []string `json:"nodes"`
	// Away are nodes that are not Ready. They were not asked.
	Away []string `json:"away,omitempty"`
}

// Run delivers the images of an archive. It needs root on a control plane.
func Run(ctx context.Context, o Options) (out Result, err error) {
	site, err := operation.Open(ctx, &node.Scope{Root: o.Root}, Kind, nil)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, site.Close()) }()
	a, err := o.Open()
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	if err := bundlepolicy.Check(a); err != nil {
		return out, err
	}
	if len(o.Trusted) > 0 {
		if _, err := ocilayout.VerifySignature(a, o.Trusted...); err != nil {
			return out, fmt.Errorf("%s is not to be trusted: %w", o.Archive, err)
		}
	}
	if out, err = targets(ctx, site.View); err != nil {
		return out, err
	}
	index, err := indexOf(a)
	if err != nil {
		return out, err
	}
	text, err := json.Marshal(params{index.digest})
	if err != nil {
		return out, err
	}
	var mu sync.Mutex
	say := func(text string) {
		mu.Lock()
		defer mu.Unlock()
		o.Say(text)
	}
	shelf := node.ShelfDir(site.Root)
	// A record that is there is of a run that was interrupted. When this one is, the same command continues with the existing files.
	run := &operation.Run{Own: site.Own, Records: site.Records(), Nodes: site.Nodes(say), Choose: func(*record.Record) error { return nil },
		Ended: func() error { return empty(shelf) },
		Record: record.Record{
			ID: "images-" + a.Digest[:16], Kind: Kind.Name, Began: time.Now().UTC(), Params: text,
			About: "images of " + o.Archive + " are being loaded on all nodes", Next: "'" + hostpath.Sudo("images load "+o.Archive+" --all-nodes") + "' on " + site.Own,
		}}
	run.Stages = []operation.Stage{{
		ID: stage, AtOnce: atOnce, Tolerant: true, Nodes: func(n cluster.Node) bool { return slices.Contains(out.Nodes, n.Name) },
		Before: func(ctx context.Context) (err error) {
			if out, err = targets(ctx, site.View); err != nil { // current ones: the lock may have been waited for
				return err
			}
			if err := put(ctx, a, index, o.Archive, shelf); err != nil {
				return fmt.Errorf("put %s into the cache %s: %w", o.Archive, shelf, err)
			}
			return nil
		},
	}}
	waiting := func(holder string) { o.Say("waiting for " + holder + ", which works on nodes of this cluster") }
	err = site.Lead(ctx, run, waiting, func(lifecycle.Event) {})
	return out, err
}

// targets divides the nodes into reachable and unreachable ones. A node without an agent is an error.
func targets(ctx context.Context, view *cluster.View) (out Result, err error) {
	nodes, err := view.Nodes(ctx)
	if err != nil {
		return out, err
	}
	annotations, err := view.Annotations(ctx)
	if err != nil {
		return out, err
	}
	return divide(nodes, annotations)
}

func divide(nodes []cluster.Node, annotations map[string]map[string]string) (out Result, err error) {
	out.Nodes = []string{}
	var without []string
	for _, n := range nodes {
		switch {
		case !n.Ready:
			out.Away = append(out.Away, n.Name)
		case annotations[n.Name][intent.AgentAnnotation] == "":
			without = append(without, n.Name)
		default:
			out.Nodes = append(out.Nodes, n.Name)
		}
	}
	slices.Sort(out.Nodes)
	if len(without) > 0 {
		return out, fmt.Errorf("no agent of Sealift runs on %s; run 'sealift images load' on these nodes, or see 'systemctl status sealift-agent' there", strings.Join(without, ", "))
	}
	if len(out.Nodes) == 0 {
		return out, errors.New("no node of the cluster is Ready; see 'sealift status'")
	}
	return out, nil
}
