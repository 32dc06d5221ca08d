// Package node knows Sealift's state on a node: its folders and files, the mark of its install root, the last run, the original
// state of the host, and the names of journal steps that others look for.
//
// It reads and writes these files. What a step does to the host is the business of install and reset.
package node

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/bundle/verdict"
	"github.com/sealift/sealift/installer/host/baseline"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/internal/hostpath"
	"github.com/sealift/sealift/internal/platform"
	"github.com/sealift/sealift/internal/regularfile"
)

const (
	// DefaultRoot is the install root, $DIR of the hooks.
	DefaultRoot = "/var/lib/sealift"
	// DefaultLogDir is where each run leaves its log.
	DefaultLogDir = "/var/log/sealift"
	// Binary is the sealift that stays on the node; hooks call it.
	Binary = hostpath.Binary
	// ContainerdDir is where containerd keeps images and containers.
	ContainerdDir = "/var/lib/containerd"
	// ProxySettings is the file in the install root with the proxy of containerd and kubelet.
	ProxySettings = "proxy.env"
)

// The files in the state folder besides the journal.
const (
	runName          = "run.json"
	installerName    = "installer.yaml"
	apiServersName   = "api-servers"
	preflightName    = "preflight"
	baselineName     = "before"
	memoryName       = "applied"
	undoName         = "undo"
	readdressName    = "readdress"
	shelfName        = "shelf"
	snapshotsName    = "snapshots.json"
	quiescedName     = "quiesced.json"
	volumesName      = "volumes"
	loadBalancerName = "load-balancer.json"
	acceptedName     = "accepted.json"
	lastSnapshotName = "last-snapshot.json"
	lastDrillName    = "last-drill.json"
	textfileName     = "textfile.json"
	consoleName      = "console"
	imagesName       = "images.json"
	temporaryName    = "sealift-" // what begins so
)

// StateDir is the folder of an install root's journal.
func StateDir(root string) string { return filepath.Join(root, "state") }

// ConsoleDir has the settings, login tokens and sessions of the console.
func ConsoleDir(root string) string { return filepath.Join(StateDir(root), consoleName) }

// LoginFile has kubernetes.oidc of the cluster on a control plane, as JSON, for the console. The agent writes it; it has no secret.
const LoginFile = "/etc/kubernetes/authentication/login.json"

// InstallerFile has the installed Installer: the bundle's, changed by the command line.
func InstallerFile(root string) string { return filepath.Join(StateDir(root), installerName) }

// ReadInstaller reads the installed Installer. An earlier sealift kept only the bundle's.
func ReadInstaller(root string) ([]byte, error) {
	text, err := regularfile.ReadFile(InstallerFile(root))
	if errors.Is(err, fs.ErrNotExist) {
		text, err = regularfile.ReadFile(filepath.Join(root, bundle.InstallerName))
	}
	if err != nil {
		return nil, fmt.Errorf("the Installer of the cluster: %w", err)
	}
	return text, nil
}

// MemoryDir has the objects that this node applied to the cluster, for a rollback.
func MemoryDir(root string) string { return filepath.Join(StateDir(root), memoryName) }

// UndoDir has the files that upgrades replaced on this node.
func UndoDir(root string) string { return filepath.Join(StateDir(root), undoName) }

// ReaddressDir has copies of files that a change of this node's address replaced.
func ReaddressDir(root string) string { return filepath.Join(StateDir(root), readdressName) }

// ShelfDir has bundles whose images other nodes fetch from this one: see package delivery.
func ShelfDir(root string) string { return filepath.Join(StateDir(root), shelfName) }

// SnapshotsFile names the cluster of the snapshots that this node saved.
func SnapshotsFile(root string) string { return filepath.Join(StateDir(root), snapshotsName) }

// LastSnapshotFile describes the last snapshot that this node saved into a store.
func LastSnapshotFile(root string) string { return filepath.Join(StateDir(root), lastSnapshotName) }

// LastDrillFile has the result of the last drill on this node with a snapshot of its own cluster.
func LastDrillFile(root string) string { return filepath.Join(StateDir(root), lastDrillName) }

// TextfileFile names the file with metrics that this node writes for node_exporter: see package textfile.
func TextfileFile(root string) string { return filepath.Join(StateDir(root), textfileName) }

// ImagesFile lists the images of the packages that the node was last brought to: see package retention.
func ImagesFile(root string) string { return filepath.Join(StateDir(root), imagesName) }

// QuiescedFile names the pods that a snapshot has quiesced.
func QuiescedFile(root string) string { return filepath.Join(StateDir(root), quiescedName) }

// VolumesDir has volumes as they were before they got another node.
func VolumesDir(root string) string { return filepath.Join(StateDir(root), volumesName) }

// LoadBalancerFile records a change of the load balancer that this node has begun and neither finished nor rolled back.
func LoadBalancerFile(root string) string { return filepath.Join(StateDir(root), loadBalancerName) }

// AcceptedFile has the number of the newest request of another node that the agent accepted. An undo does not change it.
func AcceptedFile(root string) string { return filepath.Join(StateDir(root), acceptedName) }

// TemporaryFile is for something that is needed for a while.
func TemporaryFile(root, name string) string {
	return filepath.Join(StateDir(root), temporaryName+name)
}

// StateFiles are the files and folders that describe what the node runs and how it was installed.
func StateFiles(root string) []string {
	names := []string{lifecycle.JournalFile(StateDir(root)), InstallerFile(root), MemoryDir(root), APIServersFile(root), ImagesFile(root), filepath.Join(StateDir(root), runName)}
	for _, name := range []string{bundle.IndexName, bundle.SignatureName, verdict.Name, verdict.SignatureName, bundle.InstallerName, ProxySettings, "resolv.conf", "kustomize"} {
		names = append(names, filepath.Join(root, name))
	}
	for _, p := range platform.OfHosts() { // programs for hosts of other platforms
		names = append(names, filepath.Dir(filepath.Join(root, bundle.ProgramPath(bundle.BinaryName, p))))
	}
	return names
}

// APIServersFile has the addresses of the API servers that the balancer knows.
func APIServersFile(root string) string { return filepath.Join(StateDir(root), apiServersName) }

// PreflightDir has what each install found before its first change.
func PreflightDir(root string) string { return filepath.Join(StateDir(root), preflightName) }

// Folders are the folders of the install root that kURL add-ons put files into (kURL §1.5).
func Folders() []string {
	return []string{"addons", "assets", "bin", "packages", "kustomize", "kustomize/kubeadm/init-patches", "kustomize/kubeadm/join-patches", "manifests", "remotes"}
}

// The IDs of the steps that others than their own code look for in the journal.
const (
	InitStep     = "kubernetes/init"     // makes the cluster
	JoinStep     = "kubernetes/join"     // makes the host a node of one
	KubeletStep  = "kubernetes/kubelet"  // runs another version on the host, in an upgrade
	ApprovalStep = "kubernetes/approval" // agents approve certificates of nodes
	ReadyStep    = "cluster/ready"
	NetworkStep  = "node/network"
	FirewallStep = "node/firewall"
	BalancerStep = "node/balancer"
	// ResetStep is the first step of a reset. When a journal has it, the node no longer matches the journal.
	ResetStep = "reset/leave"
)

func baselineDir(root string) string { return filepath.Join(StateDir(root), baselineName) }

// OpenBaseline opens the record of the host's state before the first change. It leaves out what pods write into volumes.
func OpenBaseline(root, logDir string) (*baseline.Record, error) {
	r, err := baseline.Open(baselineDir(root),
		baseline.Options{Skip: []string{root, logDir}, Folders: append(ClusterFolders(), DataFolders()...), Data: DataFolders()})
	if err != nil {
		return nil, fmt.Errorf("the record of the host before the install: %w", err)
	}
	r.Unwatch(DataFolders()...) // some may be links
	return r, nil
}
