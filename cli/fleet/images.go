package fleet

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/sealift/sealift/catalog/packages"
	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/cli/delegate"
	"github.com/sealift/sealift/fleet/agent"
	"github.com/sealift/sealift/internal/child"
	"github.com/sealift/sealift/store"
)

// nodeAgent is the annotation of nodes that Sealift installed: intent.AgentAnnotation, which this program does not link.
const nodeAgent = "sealift.dev/agent"

// nodes bring images to all nodes of a cluster that Sealift installed. The program sealift does it.
type nodes struct {
	cluster *rest.Config
	output  io.Writer // of sealift
}

// content says where an agent gets the images of works; nil if no store is named.
func (a commands) content(from, folder string, signers []string, local *rest.Config) (*agent.Content, error) {
	source, err := a.packages(from, signers)
	if source == nil || err != nil {
		return nil, err
	}
	return &agent.Content{Store: source, Folder: folder, Images: nodes{local, a.Err}}, nil
}

// packages opens the store of --store, or returns nil if none is named.
func (a commands) packages(from string, signers []string) (*packages.Source, error) {
	if from == "" {
		if len(signers) > 0 {
			return nil, app.UsageError("--require-signed is about the packages of --store")
		}
		return nil, nil
	}
	keys, err := app.PublicKeys(signers)
	if err != nil {
		return nil, err
	}
	s, err := store.Opener{Log: a.Log, CAs: a.CAs}.Open(from)
	return &packages.Source{Store: s, Signers: keys}, err
}

// Check implements agent.Images.
func (n nodes) Check(ctx context.Context) error {
	if _, err := delegate.Find("sealift"); err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(n.cluster)
	if err != nil {
		return err
	}
	list, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list the nodes that need images: %w", err)
	}
	for _, one := range list.Items {
		if one.Annotations[nodeAgent] != "" {
			return nil
		}
	}
	return errors.New("no node of this cluster runs sealift, which could load images. Bring the images to the nodes yourself, for instance with " +
		"'sealift images load PARCEL' on each node, and then run 'sealift fleet apply' with --images-loaded; run an agent without --store")
}

// goodbye is how long a killed program may keep its output open: one of its children may have it.
const goodbye = 10 * time.Second

// Bring implements agent.Images.
func (n nodes) Bring(ctx context.Context, folder string) ([]string, error) {
	program, err := delegate.Find("sealift")
	if err != nil {
		return nil, err
	}
	var result bytes.Buffer
	cmd := exec.CommandContext(ctx, program, "images", "load", folder, "--all-nodes", "-o", "json")
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &result, n.output, goodbye
	if err := child.Run(cmd); err != nil {
		return nil, fmt.Errorf("sealift images load %s --all-nodes: %w", folder, err)
	}
	var loaded struct{ Nodes []string }
	if err := json.Unmarshal(result.Bytes(), &loaded); err != nil {
		return nil, fmt.Errorf("read the output of sealift images load --all-nodes: %w; use the programs of one release", err)
	}
	return loaded.Nodes, nil
}
