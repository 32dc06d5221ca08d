package join

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/sealift/sealift/bundle/signature"
)

// AgentKey is the annotation of a ManagedCluster with the public key of its agent, as PEM.
const AgentKey = "fleet.sealift.dev/agent-key"

// extensionName is the name of the member extension in the kubeconfig of an agent.
const extensionName = "fleet.sealift.dev"

// member is what Sealift adds to the kubeconfig of an agent.
type member struct {
	Cluster string `json:"cluster"`
	// HubKeys are public keys as PEM. Unsigned means that there are deliberately none.
	HubKeys  []string `json:"hubKeys,omitempty"`
	Unsigned bool     `json:"unsigned,omitempty"`
	// AgentKey is the agent's private key as PEM. The file also has the agent's token.
	AgentKey string `json:"agentKey"`
}

// Member describes a cluster, in the kubeconfig of its agent.
type Member struct {
	Cluster string
	// HubKeys are the keys of the hub. Unsigned means that the hub signs nothing.
	HubKeys  []signature.PublicKey
	Unsigned bool
	// Key signs the cluster's reports on paths without a connection.
	Key *signature.Key
	// Server is the address of the hub.
	Server string
}

func extension(c Cluster, key *signature.Key) (runtime.Object, error) {
	private, err := key.Marshal(nil)
	if err != nil {
		return nil, err
	}
	m := member{Cluster: c.Name, Unsigned: c.HubKey == nil, AgentKey: string(private)}
	if c.HubKey != nil {
		m.HubKeys = []string{string(c.HubKey.Marshal())}
	}
	text, err := json.Marshal(m)
	return &runtime.Unknown{Raw: text, ContentType: runtime.ContentTypeJSON}, err
}

// Read reads the kubeconfig that Hub made.
func Read(kubeconfig []byte) (Member, error) {
	cfg, err := clientcmd.Load(kubeconfig)
	if err != nil {
		return Member{}, err
	}
	found, ok := cfg.Extensions[extensionName].(*runtime.Unknown)
	if !ok {
		return Member{}, errors.New("it lacks the agent's trust settings; run 'sealift fleet join' again, and use the file that it writes")
	}
	var m member
	in := json.NewDecoder(bytes.NewReader(found.Raw))
	in.DisallowUnknownFields()
	if err := in.Decode(&m); err != nil {
		return Member{}, fmt.Errorf("read the agent's trust settings: %w", err)
	}
	if m.Cluster == "" || m.Unsigned != (len(m.HubKeys) == 0) {
		return Member{}, errors.New("it lacks the cluster's name, or both a key of the hub and the setting for an unsigned hub; run 'sealift fleet join' again")
	}
	out := Member{Cluster: m.Cluster, Unsigned: m.Unsigned}
	for _, text := range m.HubKeys {
		key, err := signature.ParsePublicKey([]byte(text))
		if err != nil {
			return Member{}, fmt.Errorf("read the key of the hub: %w", err)
		}
		out.HubKeys = append(out.HubKeys, key)
	}
	if out.Key, err = signature.ParseKey([]byte(m.AgentKey), nil); err != nil {
		return Member{}, fmt.Errorf("read the key of the agent: %w", err)
	}
	if context := cfg.Contexts[cfg.CurrentContext]; context != nil && cfg.Clusters[context.Cluster] != nil {
		out.Server = cfg.Clusters[context.Cluster].Server
	}
	return out, nil
}
