package agent

import (
	"context"
	"errors"
	"io"
	"slices"

	"github.com/sealift/sealift/installer/cluster/share"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/installer/operation"
	"github.com/sealift/sealift/installer/operation/delivery"
	"github.com/sealift/sealift/installer/operation/endpoint"
	"github.com/sealift/sealift/installer/operation/intent"
	"github.com/sealift/sealift/installer/operation/keys"
	"github.com/sealift/sealift/installer/operation/rotation"
)

// kinds are the changes of all nodes in which a node takes its part.
var kinds = []operation.Kind{delivery.Kind, endpoint.Kind, keys.Kind, rotation.Kind}

// kindsOf returns the operations of kinds that a node of a role carries out.
func kindsOf(role intent.Role) (all []intent.Operation) {
	for _, k := range kinds {
		if slices.Contains(k.Roles, role) {
			all = append(all, k.Asks)
		}
	}
	return all
}

// kindOf returns the kind of change that an intent asks for; nil for an operation of another sort.
func kindOf(o intent.Operation) *operation.Kind {
	at := slices.IndexFunc(kinds, func(k operation.Kind) bool { return k.Asks == o })
	if at < 0 {
		return nil
	}
	return &kinds[at]
}

// restarts reports whether the agent has to start again after an intent.
func restarts(in intent.Intent) bool {
	k := kindOf(in.Operation)
	stage, _ := in.Asked()
	return k != nil && k.Restarts != nil && k.Restarts(stage)
}

// apply brings this host to the stage of a change of all nodes.
func (a *Agent) apply(ctx context.Context, k operation.Kind, in intent.Intent, step func(string)) (log string, err error) {
	output := io.Discard
	if k.Journal != "" {
		file := node.NewLog(node.DefaultLogDir, k.Journal, nil)
		defer func() { err = errors.Join(err, file.Close()) }()
		output, log = file, file.Name()
	}
	stage, params := in.Asked()
	controlPlane, err := a.isControlPlane()
	if err != nil {
		return log, err
	}
	h := operation.Host{Root: a.Root, Node: a.Node, Worker: !controlPlane, Output: output, Step: step, Server: func() (*share.Client, error) { return a.Connect(in.Server) }}
	return log, k.Apply(ctx, h, operation.Request{ID: in.Upgrade, Stage: stage, Params: params})
}
