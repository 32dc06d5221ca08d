package operation

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"path"
	"time"

	"github.com/sealift/sealift/installer/cluster/share"
	"github.com/sealift/sealift/installer/host/speed"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/installer/operation/intent"
	"github.com/sealift/sealift/internal/poll"
)

// Kind is one kind of change of all nodes. The agent of a node has a table of them: see package agent.
type Kind struct {
	Name string           // in records
	Asks intent.Operation // in requests to agents
	// Roles are those of the nodes that carry it out. An agent of another role refuses it.
	Roles []intent.Role
	// Journal is its name in the journal of the leader, and in the names of logs. "" for neither: then the agent of every node changes it,
	// including the leader's, or the kind has Nodes of its own, as an upgrade has.
	Journal lifecycle.Operation
	// Apply brings a host to a stage, and returns when it works with it. It may be interrupted and repeated, and takes no lock.
	Apply func(ctx context.Context, h Host, r Request) error
	// Restarts reports whether the agent of a host has to start again after a stage; nil is never.
	Restarts func(stage string) bool
}

// Request asks a node for its part in a stage.
type Request struct {
	ID     string // of the record
	Stage  string
	Params json.RawMessage
}

// name identifies a request. An agent answers each once, except a failed one.
func (r Request) name() string { return lifecycle.Digest(r.ID, path.Base(r.Stage))[:16] }

// Host is a node that is brought to a stage: by its agent, or by the command that leads.
type Host struct {
	Root   string // install root
	Node   string // its name
	Worker bool   // it has no control plane
	Output io.Writer
	Step   func(string) // called with what begins
	// Server reaches the control plane that asks. It is nil in the command that leads.
	Server func() (*share.Client, error)
}

// restartTime is how long the requesting control plane may be unreachable: its own change restarts the file service.
const restartTime = 2 * time.Minute

const retryPause = 2 * time.Second

// Cluster asks the requesting control plane for the cluster's data, including the secrets that this node may have. It waits for an
// unreachable one.
func (h Host) Cluster(ctx context.Context) (of share.Cluster, err error) {
	client, err := h.Server()
	if err != nil {
		return of, err
	}
	ctx, cancel := context.WithTimeout(ctx, speed.Patience(restartTime))
	defer cancel()
	err = poll.Until(ctx, retryPause, nil, func(ctx context.Context) (_ bool, err error) {
		of, err = client.Cluster(ctx)
		if refused := (*net.OpError)(nil); errors.As(err, &refused) {
			err = poll.NotYet(err)
		}
		return err == nil, err
	})
	return of, err
}
