package record

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// The kinds of operations.
const (
	Images       = "images"
	Upgrade      = "upgrade"
	Undo         = "undo" // of an upgrade, by several control planes
	CAs          = "rotate-ca"
	Keys         = "encryption"
	LoadBalancer = "load-balancer"
)

// earlier are the ConfigMaps of kinds that an earlier sealift wrote. They are read for one release, so that an operation in progress
// continues when Sealift is replaced.
var earlier = map[string]struct {
	name    string
	convert func(data map[string]string) (r Record, known bool, err error)
}{
	Upgrade:      {"sealift-upgrade", upgrading},
	CAs:          {"sealift-rotation", rotating},
	Keys:         {"sealift-encryption", encrypting},
	LoadBalancer: {"sealift-load-balancer", moving},
}

// upgrading reads the state of the newest upgrade. It stayed when that had ended.
func upgrading(data map[string]string) (r Record, known bool, err error) {
	var s struct {
		Upgrade, From, To, Phase, Leader, Snapshot, Error string
		Began, Ended                                      time.Time
		Nodes                                             map[string]struct{ Stage, Error string }
	}
	if err := json.Unmarshal([]byte(data["state.json"]), &s); err != nil {
		return r, false, fmt.Errorf("%w; remove it to begin with a new upgrade", err)
	}
	r = Record{ID: s.Upgrade, Leader: s.Leader, Began: s.Began, Params: json.RawMessage(data["state.json"]), Error: s.Error, Paused: data["paused"] != "",
		About: UpgradingKubernetes(s.From, s.To), Next: ResumeUpgrade(s.Leader)}
	switch s.Phase {
	case "preparing":
		r.Stage, r.Waits = "upgrade/prepare", s.Snapshot == ""
	case "nodes": // the stage of the workers begins when no control plane has anything to do
		r.Stage = "upgrade/control-planes"
		for name, n := range s.Nodes {
			switch {
			case n.Error != "":
				r = r.With(name, Node{Failed, n.Error})
			case n.Stage == "done":
				r = r.With(name, Node{State: Done})
			}
		}
	case "add-ons":
		r.Stage = "upgrade/add-ons"
	case "finished":
		r.Waits, r.Ended = true, cmp.Or(s.Ended, s.Began)
	default:
		return r, false, fmt.Errorf("its phase is %q; remove it to begin with a new upgrade", s.Phase)
	}
	return r, true, nil
}

// UpgradingKubernetes means that an upgrade is under way, and ResumeUpgrade how it resumes.
func UpgradingKubernetes(from, to string) string {
	return fmt.Sprintf("an upgrade from Kubernetes %s to %s is not finished", from, to)
}

// ResumeUpgrade is the command that resumes an upgrade, or undoes it.
func ResumeUpgrade(leader string) string {
	return "run 'sealift upgrade' with the same bundle again, or 'sealift upgrade undo', on " + cmp.Or(leader, "a control plane")
}

// Undoing means that an undo of several control planes is under way, and ResumeUndo how it resumes.
func Undoing(version string) string {
	return fmt.Sprintf("the control planes are going back to Kubernetes %s, and to where they were before an upgrade", version)
}

// ResumeUndo is the command that resumes an undo. It needs the snapshot of that node.
func ResumeUndo(leader string) string { return "run 'sealift upgrade undo' on " + leader }

func rotating(data map[string]string) (Record, bool, error) {
	return Record{ID: data["id"], Leader: data["leader"], About: RotatingCAs(data["id"]), Next: "run 'sealift certs rotate-ca' on " + data["leader"]}, true, nil
}

// RotatingCAs means that a rotation of CAs is under way.
func RotatingCAs(id string) string {
	return fmt.Sprintf("the cluster's CAs are being rotated (since %s)", id)
}

func encrypting(data map[string]string) (Record, bool, error) {
	params, err := json.Marshal(map[string]string{"key": data["key"]})
	return Record{ID: data["key"], Leader: data["leader"], Params: params, About: fmt.Sprintf("the cluster gets the new key %s for Secrets (begun by %s)", data["key"], data["leader"]),
		Next: "run 'sealift certs rotate-encryption' on a control plane"}, true, err
}

func moving(data map[string]string) (r Record, known bool, err error) {
	params := json.RawMessage(data["change"])
	var c struct {
		ID, From, To string
		Moved        bool
	}
	if err = json.Unmarshal(params, &c); err == nil && (c.ID == "" || c.From == "" || c.To == "") {
		err = errors.New("a field is missing")
	}
	if err != nil {
		return r, false, fmt.Errorf("it is not a record of a change of the load balancer: %w; delete it, and run the command again", err)
	}
	return Record{ID: c.ID, Params: params, Waits: c.Moved, About: fmt.Sprintf("the API is moving from the load balancer %s to %s", c.From, c.To),
		Next: fmt.Sprintf("run 'sealift node load-balancer %s' on a control plane, or 'sealift node load-balancer %s' to take it back", c.To, c.From)}, true, nil
}
