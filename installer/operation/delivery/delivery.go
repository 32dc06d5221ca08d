// Package delivery brings the images of a bundle to all nodes of a cluster. A control plane puts the bundle on its shelf and asks the
// agents of all nodes, its own too, to load the images from there: see packages share and agent.
//
// Killed at any moment, the same command goes on: a node does not fetch what it has.
package delivery

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/bundle/signature"
	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/cluster/controlplane"
	"github.com/sealift/sealift/installer/cluster/share"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/installer/operation/exclusion"
	"github.com/sealift/sealift/installer/operation/intent"
	"github.com/sealift/sealift/installer/operation/leader"
)

// atOnce is how many nodes fetch from this one at the same time.
const atOnce = 4

// Options say what is delivered. Archive is required.
type Options struct {
	Root string // install root; "" is the default
	// Archive is a bundle or a package, or the folder into which one was unpacked.
	Archive string
	// Trusted are public keys. One of them must have signed the archive or each of its packages. If there are none, signatures
	// are not checked.
	Trusted []signature.PublicKey
	// Say is told what happens, one line at a time.
	Say func(string)
}

// Result says which nodes have the images.
type Result struct {
	Nodes []string `json:"nodes"`
	// Away are nodes that are not Ready. They were not asked.
	Away []string `json:"away,omitempty"`
}

// Run delivers the images of an archive. It needs root on a control plane.
func Run(ctx context.Context, o Options) (out Result, err error) {
	scope := node.Scope{Root: o.Root}
	if err := scope.Complete(); err != nil {
		return out, err
	}
	o.Root = scope.Root
	admin, err := controlplane.AsAdministrator()
	if err != nil {
		return out, err
	}
	config, err := cluster.Config(cluster.AdminKubeconfig)
	if err != nil {
		return out, err
	}
	view, err := cluster.ViewOf(config, false)
	if err != nil {
		return out, err
	}
	a, err := bundle.Open(o.Archive, o.Trusted...)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	if len(o.Trusted) > 0 {
		if _, err := a.VerifySignature(o.Trusted...); err != nil {
			return out, fmt.Errorf("%s is not to be trusted: %w", o.Archive, err)
		}
	}
	waiting := func(holder string) { o.Say("waiting for " + holder + ", which works on nodes of this cluster") }
	err = exclusion.WithClusterLock(ctx, view.Cluster(), exclusion.Host{Root: o.Root}, exclusion.Images, waiting, func(ctx context.Context) (err error) {
		if out, err = targets(ctx, view); err != nil {
			return err
		}
		shelf := node.ShelfDir(o.Root)
		if err := put(ctx, a, o.Archive, shelf); err != nil {
			return fmt.Errorf("put %s on the shelf %s: %w", o.Archive, shelf, err)
		}
		err = ask(ctx, view, out.Nodes, a.Digest, share.Address(admin.Address), o.Say)
		if ctx.Err() != nil {
			return err // the same command goes on with what is there
		}
		return errors.Join(err, empty(shelf))
	})
	return out, err
}

// targets divides the nodes into those that are asked and those that are away. A node without an agent is an error.
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

// ask has the agents of nodes load the images. A node that fails does not stop the others.
func ask(ctx context.Context, view *cluster.View, nodes []string, digest, server string, say func(string)) error {
	var mu sync.Mutex
	tell := func(text string) {
		mu.Lock()
		defer mu.Unlock()
		say(text)
	}
	in := intent.Intent{Upgrade: "images-" + digest[:16], Operation: intent.Images, Index: digest, Server: server}
	errs := make([]error, len(nodes))
	var group errgroup.Group
	group.SetLimit(atOnce)
	for i, name := range nodes {
		group.Go(func() error {
			errs[i] = leader.Of(view).Ask(ctx, tell, name, in)
			return nil
		})
	}
	_ = group.Wait() // nothing of it fails
	return errors.Join(errs...)
}
