package identity

import "slices"

// Party is the requester.
type Party string

// The parties, by what each can prove.
const (
	// Anonymous proves nothing.
	Anonymous Party = "anonymous"
	// Token has a join token: it may become a new worker.
	Token Party = "token"
	// Invited has a join token and the key of the cluster's certificates: an administrator lets it become a control plane.
	Invited Party = "token and certificate key"
	// Worker has the certificate of a kubelet. A control plane's kubelet proves no more than that.
	Worker Party = "worker"
	// Member is a control plane: see ControlPlane.
	Member Party = "control plane"
	// Administrator has the rights of system:masters in the API. As root on a control plane, it is a Member.
	Administrator Party = "administrator"
)

// Parties lists all of them.
func Parties() []Party { return []Party{Anonymous, Token, Invited, Worker, Member, Administrator} }

// Right is something that a party may request.
type Right string

// The rights at the share, the service by which control planes serve files to other hosts.
const (
	ReadScript    Right = "share: script and program for joins"
	ReadCluster   Right = "share: what a worker needs to know of the cluster"
	ReadBundle    Right = "share: files of the bundle, without its Installer"
	ReadImages    Right = "share: images of carried bundles"
	PullImages    Right = "share: images of this cluster, by the protocol of registries"
	ReadInstaller Right = "share: the whole Installer, with its secrets"
	ReadKeys      Right = "share: keys for Secrets"
	ReadCAKeys    Right = "share: private keys of CAs that are being rotated"
	ReadUndo      Right = "share: the order and etcd snapshot of a joint undo"
)

// The rights at the agent of another node. Intents prove the first two by a signature. A worker needs a permit for each blob, which a control
// plane signs for this one worker, and a control plane learns only whether the blob is there: see package peer.
const (
	AskWorker       Right = "agent: an operation of a worker"
	AskControlPlane Right = "agent: an operation of a control plane"
	ReadBlob        Right = "agent: a part of an image that a control plane sends a node to"
)

// The rights at the approver of kubelets' certificates.
const (
	NewWorker   Right = "approver: client certificate for the name of a new node"
	RenewClient Right = "approver: client certificate for its own name"
	// RenewEnded uses a token that an administrator created for this one node ('sealift token create --renew NODE'), once.
	RenewEnded    Right = "approver: client certificate for a worker that was off too long, with the token made for it"
	ServeOwn      Right = "approver: serving certificate for its own name and addresses"
	AnotherNode   Right = "approver: client certificate for the name of another node"
	ServeAPI      Right = "approver: serving certificate for a name or address of the API"
	ServeAsMember Right = "approver: certificate of a control plane's identity"
)

// rights is the matrix. A right that nobody has is listed here with an empty list.
var rights = map[Right][]Party{
	ReadScript:    Parties(),
	ReadCluster:   {Token, Invited, Worker, Member},
	ReadBundle:    {Token, Invited, Worker, Member},
	ReadImages:    {Token, Invited, Worker, Member},
	PullImages:    {Worker, Member},
	ReadInstaller: {Invited, Member},
	ReadKeys:      {Invited, Member},
	ReadCAKeys:    {Invited, Member},
	ReadUndo:      {Member},

	AskWorker:       {Member},
	AskControlPlane: {Member},
	ReadBlob:        {Worker, Member},

	NewWorker:     {Token, Invited},
	RenewClient:   {Worker},
	RenewEnded:    {Token},
	ServeOwn:      {Worker},
	AnotherNode:   {},
	ServeAPI:      {},
	ServeAsMember: {},
}

// Rights lists all rights, in the order of this file.
func Rights() []Right {
	return []Right{
		ReadScript, ReadCluster, ReadBundle, ReadImages, PullImages, ReadInstaller, ReadKeys, ReadCAKeys, ReadUndo,
		AskWorker, AskControlPlane, ReadBlob, NewWorker, RenewClient, RenewEnded, ServeOwn, AnotherNode, ServeAPI, ServeAsMember,
	}
}

// Has reports whether a party has a right.
func (p Party) Has(r Right) bool { return slices.Contains(rights[r], p) }
