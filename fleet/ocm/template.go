package ocm

// AddOnTemplateSpec describes an add-on's agent and its rights on the hub.
type AddOnTemplateSpec struct {
	AddOnName    string         `json:"addonName"`
	AgentSpec    AgentSpec      `json:"agentSpec"`
	Registration []Registration `json:"registration,omitempty"`
}

// Types of a Registration.
const (
	KubeClient   = "KubeClient"
	CustomSigner = "CustomSigner"
)

// Registration configures how the agent authenticates.
type Registration struct {
	Type         string            `json:"type"`
	KubeClient   KubeClientSpec    `json:"kubeClient,omitzero"`
	CustomSigner *CustomSignerSpec `json:"customSigner,omitempty"`
}

// KubeClientSpec has the rights of an agent on the hub.
type KubeClientSpec struct {
	HubPermissions []HubPermission `json:"hubPermissions,omitempty"`
}

// Types of a HubPermission.
const (
	CurrentCluster  = "CurrentCluster"
	SingleNamespace = "SingleNamespace"
)

// HubPermission is a role of an agent: in the namespace of its cluster, or in another one.
type HubPermission struct {
	Type            string               `json:"type"`
	CurrentCluster  *CurrentClusterRole  `json:"currentCluster,omitempty"`
	SingleNamespace *SingleNamespaceRole `json:"singleNamespace,omitempty"`
}

// CurrentClusterRole names a ClusterRole.
type CurrentClusterRole struct {
	ClusterRoleName string `json:"clusterRoleName"`
}

// SingleNamespaceRole names a namespace, and a role to bind there.
type SingleNamespaceRole struct {
	Namespace string  `json:"namespace"`
	RoleRef   RoleRef `json:"roleRef"`
}

// RoleRef names a Role or a ClusterRole.
type RoleRef struct {
	APIGroup string `json:"apiGroup"`
	Kind     string `json:"kind"`
	Name     string `json:"name"`
}

// CustomSignerSpec names a signer of certificates.
type CustomSignerSpec struct {
	SignerName string               `json:"signerName"`
	Subject    *RegistrationSubject `json:"subject,omitempty"`
	// SigningCA names the Secret with the authority. Its namespace is the hub's unless it says otherwise.
	SigningCA ConfigObject `json:"signingCA"`
}

// AddOnDeploymentConfigSpec adapts an agent to a cluster.
type AddOnDeploymentConfigSpec struct {
	CustomizedVariables   []Variable             `json:"customizedVariables,omitempty"`
	NodePlacement         *NodePlacement         `json:"nodePlacement,omitempty"`
	Registries            []ImageMirror          `json:"registries,omitempty"`
	ProxyConfig           ProxyConfig            `json:"proxyConfig,omitzero"`
	AgentInstallNamespace string                 `json:"agentInstallNamespace,omitempty"`
	ResourceRequirements  []ContainerRequirement `json:"resourceRequirements,omitempty"`
}

// Variable is a name that templates and environments know, with its value.
type Variable struct {
	Name  string `json:"name"`
	Value string `json:"value,omitempty"`
}

// NodePlacement has the fields of a pod's spec, as plain JSON.
type NodePlacement struct {
	NodeSelector map[string]any `json:"nodeSelector,omitempty"`
	Tolerations  []any          `json:"tolerations,omitempty"`
}

// ImageMirror replaces the beginning of an image's name.
type ImageMirror struct {
	Source string `json:"source,omitempty"`
	Mirror string `json:"mirror"`
}

// ProxyConfig configures how an agent reaches the network. CABundle is PEM.
type ProxyConfig struct {
	HTTPProxy  string `json:"httpProxy,omitempty"`
	HTTPSProxy string `json:"httpsProxy,omitempty"`
	NoProxy    string `json:"noProxy,omitempty"`
	CABundle   []byte `json:"caBundle,omitempty"`
}

// ContainerRequirement has the resources of containers. ContainerID is <kind>:<name>:<container>; a part may be *.
type ContainerRequirement struct {
	ContainerID string         `json:"containerID"`
	Resources   map[string]any `json:"resources"`
}
