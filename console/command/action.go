package command

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/sealift/sealift/console/access"
)

// Settings are values of actions that only root on the node sets. A person who uses the console cannot choose keys: whoever chooses
// the key of a snapshot can read every secret of the cluster.
type Settings struct {
	SnapshotKey      string `json:"snapshotKey,omitempty"`      // public key of age, or a file with public keys
	SnapshotStore    string `json:"snapshotStore,omitempty"`    // folder or s3://bucket/prefix
	SnapshotIdentity string `json:"snapshotIdentity,omitempty"` // file with the private key
	Bundles          string `json:"bundles,omitempty"`          // folder with bundles
}

// Field is a value that a person chooses.
type Field struct {
	Name, Label string
	form        *regexp.Regexp
	// whole returns the word of the command for a checked value; nil for the value itself.
	whole func(Settings, string) string
}

// Action is a command that a person may start.
type Action struct {
	Name, Title string
	About       string // what it does, for people
	Right       access.Right
	Fields      []Field
	// words of the command. A word in braces is a setting or a field.
	words []string
	time  time.Duration
}

// snapshotForm is the name of a snapshot in a store, and bundleForm that of a bundle in the folder of bundles. Neither can be a flag or
// leave its folder.
var (
	snapshotForm = regexp.MustCompile(`^snapshot-[0-9a-f]{8}-[a-z0-9.-]{1,253}-[0-9]{8}T[0-9]{6}Z\.tar\.gz\.age$`)
	bundleForm   = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._+-]{0,200}\.(tar\.gz|tgz)$`)
)

// IsBundle reports whether the console takes a file name for that of a bundle.
func IsBundle(name string) bool { return bundleForm.MatchString(name) }

// The names of the actions.
const (
	SaveSnapshot   = "snapshot-save"
	VerifySnapshot = "snapshot-verify"
	PlanUpgrade    = "upgrade-plan"
	PauseUpgrade   = "upgrade-pause"
	ResumeUpgrade  = "upgrade-resume"
)

// Actions returns the table of actions.
func Actions() []Action {
	return []Action{
		{
			Name: SaveSnapshot, Title: "Save a snapshot", Right: access.SaveSnapshot, time: time.Hour,
			About: "Saves etcd, keys and files of this control plane in one encrypted file.",
			words: []string{"snapshot", "save", "--key", "{snapshotKey}", "--store", "{snapshotStore}", "-o", "json"},
		}, {
			Name: VerifySnapshot, Title: "Verify a snapshot", Right: access.CheckSnapshot, time: time.Hour,
			About:  "Decrypts the snapshot and compares every byte with its digests. Nothing is written.",
			Fields: []Field{{Name: "snapshot", Label: "Snapshot", form: snapshotForm}},
			words:  []string{"snapshot", "verify", "{snapshot}", "--identity", "{snapshotIdentity}", "--store", "{snapshotStore}", "-o", "json"},
		}, {
			Name: PlanUpgrade, Title: "Plan an upgrade", Right: access.PlanUpgrade, time: 15 * time.Minute,
			About: "Shows the changes, the order of the nodes and the checks. Nothing is changed.",
			Fields: []Field{{Name: "bundle", Label: "Bundle", form: bundleForm,
				whole: func(s Settings, name string) string { return strings.TrimSuffix(s.Bundles, "/") + "/" + name }}},
			words: []string{"upgrade", "--bundle", "{bundle}", "--plan", "-o", "json"},
		}, {
			Name: PauseUpgrade, Title: "Pause the upgrade", Right: access.PauseUpgrade, time: time.Minute,
			About: "Lets no further node begin. Nodes that have begun are finished.",
			words: []string{"upgrade", "pause"},
		}, {
			Name: ResumeUpgrade, Title: "Resume the upgrade", Right: access.ResumeUpgrade, time: time.Minute,
			About: "Lets further nodes begin again.",
			words: []string{"upgrade", "resume"},
		},
	}
}

// Find returns the action of a name.
func Find(name string) (Action, bool) {
	all := Actions()
	at := slices.IndexFunc(all, func(a Action) bool { return a.Name == name })
	if at < 0 {
		return Action{}, false
	}
	return all[at], true
}

// settings are the settings by the names that words have, with what sets them.
func (s Settings) named(name string) (value, flag string, ok bool) {
	switch name {
	case "snapshotKey":
		return s.SnapshotKey, "--snapshot-key KEY", true
	case "snapshotStore":
		return s.SnapshotStore, "--snapshot-store STORE", true
	case "snapshotIdentity":
		return s.SnapshotIdentity, "--snapshot-identity FILE", true
	}
	return "", "", false
}

// Missing returns the flag of 'sealift-console on' without which the action cannot run, or "".
func (a Action) Missing(s Settings) string {
	if a.Name == PlanUpgrade && s.Bundles == "" {
		return "--bundles DIR"
	}
	for _, word := range a.words {
		if value, flag, ok := s.named(strings.Trim(word, "{}")); ok && value == "" {
			return flag
		}
	}
	return ""
}

// Words returns the words of the command for checked values. Every value must be one of the action's fields.
func (a Action) Words(s Settings, values map[string]string) ([]string, error) {
	if missing := a.Missing(s); missing != "" {
		return nil, fmt.Errorf("%s is not set up; root on this node runs: sealift-console on %s", strings.ToLower(a.Title), missing)
	}
	words := slices.Clone(a.words)
	for i, word := range words {
		name, isValue := strings.CutPrefix(word, "{")
		if !isValue {
			continue
		}
		name = strings.TrimSuffix(name, "}")
		if value, _, ok := s.named(name); ok {
			words[i] = value
			continue
		}
		at := slices.IndexFunc(a.Fields, func(f Field) bool { return f.Name == name })
		field, value := a.Fields[at], values[name]
		if !field.form.MatchString(value) {
			return nil, fmt.Errorf("%s: choose one of the list", strings.ToLower(field.Label))
		}
		if words[i] = value; field.whole != nil {
			words[i] = field.whole(s, value)
		}
	}
	return words, nil
}

// Example returns the command line of the action, with a word in capitals for each field that has no value.
func (a Action) Example(s Settings, values map[string]string) string {
	words := slices.Clone(a.words)
	for i, word := range words {
		name, isValue := strings.CutPrefix(word, "{")
		if !isValue {
			continue
		}
		name = strings.TrimSuffix(name, "}")
		value, flag, isSetting := s.named(name)
		switch {
		case isSetting && value != "":
			words[i] = value
		case isSetting:
			_, words[i], _ = strings.Cut(flag, " ")
		case values[name] != "":
			words[i] = values[name]
		default:
			words[i] = strings.ToUpper(name)
		}
	}
	return Line(words...)
}
