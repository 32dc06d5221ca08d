// Package gridspec reads the files that describe tests of the grid: which Installer, on how many nodes, with which events, and what
// must be true in the end.
//
// It reads kURL's spec files unchanged (kURL §7.1), kURL's lists of systems (kURL §7.2), and fields that only Sealift has. It
// finds every mistake of a file in one go, each with its position. It never runs anything.
package gridspec

import (
	"slices"
	"time"

	"github.com/sealift/sealift/internal/diag"
	"github.com/sealift/sealift/spec"
)

// File is one file of tests, or one list of systems.
type File struct {
	Name    string
	Tests   []Test
	Systems []System
	Wrong   int // tests and systems that were left out for their mistakes
	// Warnings are about things that are valid but probably mistakes.
	Warnings []diag.Finding
}

// Test is one test. It runs once on every system that does not refuse it.
type Test struct {
	// ID names the test in a report: letters, digits and dashes, unique in its file.
	ID   string
	Name string   // as written, or the ID of a test without a name
	Pos  diag.Pos `json:"-"`

	Install *spec.Installer
	Upgrade *spec.Installer // nil: the test ends without an upgrade
	// Flags are arguments of the installer, such as "yes labels=a=b".
	Flags            string
	Airgap           bool
	CPU              int   // processors of each node
	Memory           int64 // bytes of each node
	UnsupportedOSIDs []string
	PreInstall       string // bash, on the first node, as the fields below
	PostInstall      string
	PreUpgrade       string
	PostUpgrade      string
	// SupportBundle is a SupportBundle as YAML, to collect besides the usual one.
	SupportBundle string
	// InstallEndpoint and UpgradeEndpoint are servers of Installers. kURL's tests name https://kurl.sh there to begin with an
	// old release of kURL.
	InstallEndpoint string
	UpgradeEndpoint string

	Joins      []Join // in this order
	Kills      []Fault
	PowerCuts  []Fault
	CutNetwork []Fault
	Clocks     []Clock
	Expect     []Expectation
	Reset      bool // take everything back in the end and compare the hosts with how they were
}

// Nodes is the number of hosts that the test needs.
func (t Test) Nodes() int { return 1 + len(t.Joins) }

// Supports reports whether the test may run on a system.
func (t Test) Supports(system string) bool {
	return !slices.Contains(t.UnsupportedOSIDs, system)
}

// The roles of a node that joins.
const (
	ControlPlane = "control-plane"
	Worker       = "worker"
)

// Join adds one node to the cluster.
type Join struct {
	Role  string // ControlPlane or Worker
	Flags string // more arguments of the join
}

// Fault is something that befalls a node while it works.
type Fault struct {
	// Node counts from 1, the node that installs. The others follow in the order in which they join.
	Node int
	// Step is the ID of a step in the node's journal, such as containerd/install. The fault waits for the step's begin.
	Step string
	// Upgrade is set if the fault befalls the upgrade, and not the install, the join or the reset, whose steps may have the same
	// ID.
	Upgrade bool
	After   time.Duration // since the step's begin
	Signal  string        // of a kill: KILL, TERM or INT
	Lasts   time.Duration // of a cut of the network
}

// Clock sets the clock of a node before it installs or joins.
type Clock struct {
	Node   int
	Offset time.Duration
}

// Expectation is a condition after the install, the joins and the upgrade. One of the fields of kinds is set.
type Expectation struct {
	Pos    diag.Pos      `json:"-"`
	Within time.Duration // ask again for so long until it is true

	NodesReady    int    // this many nodes are Ready, and no other node exists
	PodsRunning   string // all, or the name of a namespace: every pod there runs or is done
	HTTP          *HTTP
	Command       *Command
	NoImagePulled bool // every image was on the node before its container started
	BytesFetched  *BytesFetched
	Took          *Took
}

// HTTP is an answer to a request that a node makes.
type HTTP struct {
	Node     int
	URL      string
	Status   int
	Contains string
}

// Command is the result of a shell script on a node.
type Command struct {
	Node     int
	Run      string
	Exit     int
	Contains string
}

// BytesFetched bounds the bytes that a node received over its network since the test began.
type BytesFetched struct {
	Node int
	Most int64 // bytes
}

// Took bounds the time of a part of the test. Time says little on a busy machine, so a longer time is a warning only.
type Took struct {
	Part string // install, join, upgrade or reset; join is the longest one
	Most time.Duration
}

// System is one entry of kURL's lists of operating systems.
type System struct {
	ID      string
	Name    string
	Version string
	Image   string // URL of the disk image
	PreInit string // bash that prepares the system
	Pos     diag.Pos
}
