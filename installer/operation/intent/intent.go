// Package intent is how one node of a cluster asks another one to take its part in an upgrade, in a rotation of keys or CAs, or in a
// change of the load balancer, and how that one answers: two annotations of its Node object.
//
// Only a control plane may ask, and proves it by a signature: see package identity. The right to write the annotation is not enough.
// An intent is for one node, and has an increasing number and an expiry, so that it cannot be replayed or used for another node. It
// names one of a few operations, and the digest of the bundle or undo that it is about; it has no commands. The content comes from a
// control plane that proves the same identity, and each byte is verified against the digest.
package intent

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net"
	"regexp"
	"slices"
	"time"

	"github.com/sealift/sealift/installer/journal/lifecycle"
)

// The annotations of a Node.
const (
	// Annotation has the Intent, written by the node that leads an upgrade.
	Annotation = "sealift.dev/intent"
	// ReportAnnotation has the Report, written by the node itself.
	ReportAnnotation = "sealift.dev/report"
	// AgentAnnotation has the Host, written by the node itself when its agent starts, and when it is asked to look.
	AgentAnnotation = "sealift.dev/agent"
)

// Operation is what a node is asked to do. The others are phases of an upgrade.
type Operation string

// The operations.
const (
	// Look requests the state of the host, and changes nothing.
	Look    Operation = "look"
	Prepare           = Operation(lifecycle.Prepare)
	Upgrade           = Operation(lifecycle.Upgrade)
	Kubelet           = Operation(lifecycle.Kubelet)
	// Undo restores the files that the node had before the upgrade. It needs no bundle and no server.
	Undo Operation = "undo"
	// PrepareUndo asks a control plane to get ready to undo an upgrade together with the others, whose order the server has. Index is the digest
	// of that order. Running programs do not change; the server reports when it is time. The report of the undo itself is one of Undo,
	// for an upgrade that is called as the order.
	PrepareUndo Operation = "arm"
	// Encrypt asks a control plane to fetch the keys for Secrets from the server: see package encryption. It needs no bundle.
	Encrypt Operation = "encrypt"
	// Rotate asks a node to take its part in a rotation of CAs from the server: see package authority. It needs no bundle.
	Rotate Operation = "rotate"
	// Balance asks a node to take its part in a change of the load balancer: see package endpoint. It needs neither a bundle nor a
	// server: the node itself checks that the new one leads to its cluster.
	Balance Operation = "balance"
	// Images asks a node to load the images of a bundle that the server has on its shelf: see package delivery.
	Images Operation = "images"
)

// Role is the role of a node in its cluster.
type Role string

// The roles.
const (
	Worker       Role = "worker"
	ControlPlane Role = "control plane"
)

// RoleOf returns the role of a node.
func RoleOf(controlPlane bool) Role {
	if controlPlane {
		return ControlPlane
	}
	return Worker
}

// operations lists what each role carries out.
func operations(r Role) []Operation {
	all := []Operation{Look, Prepare, Upgrade, Kubelet, Rotate, Balance, Images}
	if r == ControlPlane {
		return append(all, PrepareUndo, Encrypt)
	}
	return append(all, Undo)
}

// Intent asks a node for one operation.
type Intent struct {
	// Node is the name of the requested node, and Role its role: one of another role refuses.
	Node string `json:"node"`
	Role Role   `json:"role"`
	// Number is higher than that of every earlier intent for this node: nanoseconds since 1970 on the clock of the asking node, or more.
	Number int64 `json:"number"`
	// Until is when the intent expires. A node that has not begun by then refuses it.
	Until time.Time `json:"until"`
	// Upgrade identifies the upgrade that this is part of.
	Upgrade   string    `json:"upgrade"`
	Operation Operation `json:"operation"`
	// Attempt distinguishes a request from an earlier one for the same: a failed operation is retried with a higher one.
	Attempt int `json:"attempt"`
	// Index is the sha256 of the bundle's index, in hex. Server is the host:port of the control plane that has the bundle.
	Index  string `json:"index"`
	Server string `json:"server"`
	// Sealift is the sha256 of the program that the node is to have, in hex. The server supplies that, too.
	Sealift string `json:"sealift"`
	// From is the version of Kubernetes that the cluster ran before, such as 1.35.4.
	From string `json:"from"`
	// UpgradeID identifies the upgrade with all its stops: a node's copies for Undo belong to it.
	UpgradeID string `json:"whole,omitempty"`
	// Stage and Params are those of an operation of package operation. Params are a JSON value; they have no secrets.
	Stage  string          `json:"stage,omitempty"`
	Params json.RawMessage `json:"params,omitempty"`
	// Move is Balance's request to an agent of an earlier sealift, which knows no Stage.
	Move *Move `json:"move,omitempty"`
}

// Move is a change of the load balancer in front of the API, and the stage of it that a node has to reach.
type Move struct {
	From  string `json:"from"` // host:port
	To    string `json:"to"`
	Stage string `json:"stage"`
}

// Check requires two endpoints. They are written to files.
func (m *Move) Check() error {
	if m == nil {
		return fmt.Errorf("annotation %s names no load balancer", Annotation)
	}
	for _, one := range []string{m.From, m.To} {
		if host, _, err := net.SplitHostPort(one); err != nil || !endpoint.MatchString(host) {
			return fmt.Errorf("annotation %s: %q is not an address of a load balancer", Annotation, one)
		}
	}
	return nil
}

// endpoint matches the host of a load balancer: a name or an address.
var endpoint = regexp.MustCompile(`^[0-9a-zA-Z.:-]+$`)

// maxSize bounds an annotation that is read.
const maxSize = 16 << 10

// Parse reads an Intent from an annotation.
func Parse(text string) (in Intent, err error) {
	if err := decode(text, &in); err != nil {
		return in, fmt.Errorf("annotation %s: %w", Annotation, err)
	}
	switch {
	case in.Upgrade == "" || in.Attempt < 1:
		err = fmt.Errorf("annotation %s names no upgrade, or no attempt", Annotation)
	case in.Stage == "" && !slices.Contains(slices.Concat(operations(Worker), operations(ControlPlane)), in.Operation):
		err = fmt.Errorf("annotation %s asks for %q, which this sealift does not know; a newer sealift may", Annotation, in.Operation)
	case in.UpgradeID != "" && !identifier.MatchString(in.UpgradeID), (in.Operation == Undo || in.Operation == PrepareUndo) && in.UpgradeID == "":
		err = fmt.Errorf("annotation %s names no upgrade that could be undone: %q", Annotation, in.UpgradeID)
	case in.Stage != "":
		err = in.checkServer()
	case in.Operation == Undo:
	case in.Operation == Balance:
		err = in.Move.Check()
	case (in.Operation == Images || in.Operation == PrepareUndo) && !IsSHA256(in.Index):
		err = fmt.Errorf("annotation %s lacks the sha256 of its content", Annotation)
	case !slices.Contains([]Operation{Encrypt, Rotate, Images, PrepareUndo}, in.Operation) && (!IsSHA256(in.Index) || !IsSHA256(in.Sealift)):
		err = fmt.Errorf("annotation %s has no sha256 of the bundle's index, or of sealift", Annotation)
	default:
		err = in.checkServer()
	}
	return in, err
}

func (in Intent) checkServer() error {
	if _, _, err := net.SplitHostPort(in.Server); err != nil {
		return fmt.Errorf("annotation %s: the server: %w", Annotation, err)
	}
	return nil
}

// identifier is the ID of an upgrade with all its stops; it is also the name of a folder.
var identifier = regexp.MustCompile(`^[0-9a-f]{16}$`)

// IsSHA256 reports whether a text is one, in hex.
func IsSHA256(text string) bool {
	sum, err := hex.DecodeString(text)
	return err == nil && len(sum) == sha256.Size
}

func decode(text string, into any) error {
	if len(text) > maxSize {
		return fmt.Errorf("has %d bytes, more than %d", len(text), maxSize)
	}
	return json.Unmarshal([]byte(text), into)
}

// State is a node's progress with its intent.
type State string

// The states.
const (
	Working State = "working"
	Done    State = "done"
	Failed  State = "failed"
)

// Report is the answer of a node.
type Report struct {
	// Number is the intent's. Accepted is the highest number that the node accepted before; only a refusal has it.
	Number    int64     `json:"number,omitempty"`
	Accepted  int64     `json:"accepted,omitempty"`
	Upgrade   string    `json:"upgrade"`
	Operation Operation `json:"operation"`
	Attempt   int       `json:"attempt"`
	State     State     `json:"state"`
	Step      string    `json:"step,omitempty"`  // at which the node is, or which failed
	Error     string    `json:"error,omitempty"` // of a failure
	Log       string    `json:"log,omitempty"`   // file on the node
	// Began is the start of the operation on the node, Seconds its duration so far.
	Began   time.Time `json:"began"`
	Seconds float64   `json:"seconds"`
}

// Answers reports whether the report is about an intent. An agent of an earlier sealift reports no number.
func (r Report) Answers(in Intent) bool {
	return r.Upgrade == in.Upgrade && r.Operation == in.Operation && r.Attempt == in.Attempt && (r.Number == 0 || r.Number == in.Number)
}

// ParseReport reads a Report from an annotation; no annotation is the zero value.
func ParseReport(text string) (r Report, err error) {
	if text == "" {
		return r, nil
	}
	if err := decode(text, &r); err != nil {
		return r, fmt.Errorf("annotation %s: %w", ReportAnnotation, err)
	}
	return r, nil
}

// maxError bounds the text of a failure: the log of the node has all of it.
const maxError = 2 << 10

// Encode writes an annotation.
func (r Report) Encode() string {
	if len(r.Error) > maxError {
		r.Error = r.Error[:maxError] + " …"
	}
	return encode(r)
}

// Host is a node's report about itself.
type Host struct {
	Sealift string `json:"sealift"` // version of its agent
	// Signed means that the agent only carries out signed intents. That of an earlier sealift checks no signature.
	Signed bool      `json:"signed,omitempty"`
	Time   time.Time `json:"time"` // on its clock
	// Free is the space for files of add-ons below the install root, Images that for containerd.
	Free   Space `json:"free"`
	Images Space `json:"images"`
	// Enforcing means that SELinux denies what its policy forbids.
	Enforcing bool `json:"enforcing,omitempty"`
}

// Space is the free space of a file system.
type Space struct {
	Bytes  uint64 `json:"bytes"`
	Inodes uint64 `json:"inodes"`
}

// ParseHost reads a Host from an annotation; no annotation is the zero value.
func ParseHost(text string) (h Host, err error) {
	if text == "" {
		return h, nil
	}
	if err := decode(text, &h); err != nil {
		return h, fmt.Errorf("annotation %s: %w", AgentAnnotation, err)
	}
	return h, nil
}

// Encode writes an annotation.
func (h Host) Encode() string { return encode(h) }

func encode(v any) string {
	text, _ := json.Marshal(v) // structs of strings, numbers and times: cannot fail
	return string(text)
}

// Later returns the attempt that follows an earlier report of the same upgrade.
func Later(r Report, upgrade string) int {
	if r.Upgrade != upgrade {
		return 1
	}
	return r.Attempt + 1
}
