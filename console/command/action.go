package command

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
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
	// BundleKeys are files with public keys. An uploaded bundle must be signed with one of them.
	BundleKeys []string `json:"bundleKeys,omitempty"`
	Fleet      Fleet    `json:"fleet,omitzero"`
	// Uploads is the folder with uploaded bundles. The console decides about it.
	Uploads string `json:"-"`
}

// Field is a value that a person chooses.
type Field struct {
	Name, Label string
	form        *regexp.Regexp
	// whole returns the word of the command for a checked value; nil for the value itself.
	whole func(Settings, string) (string, error)
}

// Action is a command that a person may start.
type Action struct {
	Name, Title string
	About       string // what it does, for people
	Right       access.Right
	Fields      []Field
	// After is the action that shows what this one will do. It must have ended well with the same values, not long ago.
	After string
	// Outside is the page that shows a command that outlives the console: see package background. It is "" for commands that end with it.
	Outside string
	// words of the command. A word in braces is a setting or a field.
	words []string
	time  time.Duration
}

// UploadedPrefix begins the names of bundles that were uploaded. The others are in the folder of bundles.
const UploadedPrefix = "uploaded/"

// snapshotForm is the name of a snapshot in a store, and bundleForm that of a bundle. Neither can be a flag or leave its folder.
var (
	snapshotForm = regexp.MustCompile(`^snapshot-[0-9a-f]{8}-[a-z0-9.-]{1,253}-[0-9]{8}T[0-9]{6}Z\.tar\.gz\.age$`)
	bundleForm   = regexp.MustCompile(`^(` + UploadedPrefix + `)?[A-Za-z0-9][A-Za-z0-9._+-]{0,200}\.(tar\.gz|tgz)$`)
)

// BundlePath returns the file of a bundle by its name.
func (s Settings) BundlePath(name string) (string, error) {
	if !bundleForm.MatchString(name) {
		return "", errors.New("bundle: choose one of the list")
	}
	switch uploaded, isUploaded := strings.CutPrefix(name, UploadedPrefix); {
	case isUploaded && len(s.BundleKeys) == 0:
		return "", ErrNoKey
	case isUploaded:
		return filepath.Join(s.Uploads, uploaded), nil
	case s.Bundles == "":
		return "", errors.New("no folder with bundles is set up; root on this node runs: sealift-console on --bundles DIR")
	}
	return filepath.Join(s.Bundles, name), nil
}

// keyWords are the words that name the keys of bundles.
func (s Settings) keyWords() (words []string) {
	for _, key := range s.BundleKeys {
		words = append(words, "--key", key)
	}
	return words
}

// The names of the actions.
const (
	SaveSnapshot   = "snapshot-save"
	VerifySnapshot = "snapshot-verify"
	DrillSnapshot  = "snapshot-drill"
	PlanUpgrade    = "upgrade-plan"
	PauseUpgrade   = "upgrade-pause"
	ResumeUpgrade  = "upgrade-resume"
	StartUpgrade   = "upgrade-start"
	PlanUndo       = "undo-plan"
	UndoUpgrade    = "undo-start"
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
			Name: DrillSnapshot, Title: "Try a restore", Right: access.DrillSnapshot, Outside: "/snapshots",
			About:  "Restores the snapshot beside the cluster, starts etcd and an API server with it, and compares every object. Nothing of the cluster is changed.",
			Fields: []Field{{Name: "snapshot", Label: "Snapshot", form: snapshotForm}},
			words:  []string{"restore", "{snapshot}", "--drill", "--identity", "{snapshotIdentity}", "--store", "{snapshotStore}"},
		}, {
			Name: PlanUpgrade, Title: "Plan an upgrade", Right: access.PlanUpgrade, time: 15 * time.Minute,
			About:  "Shows the changes, the order of the nodes and the checks. Nothing is changed.",
			Fields: []Field{bundleField()},
			words:  []string{"upgrade", "--bundle", "{bundle}", keysWord, "--plan", "-o", "json"},
		}, {
			Name: PauseUpgrade, Title: "Pause the upgrade", Right: access.PauseUpgrade, time: time.Minute,
			About: "Lets no further node begin. Nodes that have begun are finished.",
			words: []string{"upgrade", "pause"},
		}, {
			Name: ResumeUpgrade, Title: "Resume the upgrade", Right: access.ResumeUpgrade, time: time.Minute,
			About: "Lets further nodes begin again.",
			words: []string{"upgrade", "resume"},
		}, {
			Name: StartUpgrade, Title: "Start this upgrade", Right: access.StartUpgrade, After: PlanUpgrade, Outside: "/upgrade",
			About:  "Upgrades all nodes and add-ons, as the plan says. It goes on while the console restarts.",
			Fields: []Field{bundleField()},
			words:  []string{"upgrade", "--bundle", "{bundle}", keysWord, "--yes"},
		}, {
			Name: PlanUndo, Title: "Plan the undo of the last upgrade", Right: access.PlanUndo, time: 15 * time.Minute,
			About: "Shows which nodes would go back, and which objects of the cluster would be lost. Nothing is changed.",
			words: []string{"upgrade", "undo", "--plan", "-o", "json"},
		}, {
			Name: UndoUpgrade, Title: "Undo the last upgrade", Right: access.UndoUpgrade, After: PlanUndo, Outside: "/upgrade",
			About: "Takes the cluster back, as the plan says. What was written to it since the upgrade is lost.",
			words: []string{"upgrade", "undo", "--yes"},
		},
	}
}

// keysWord stands for the words that name the keys of bundles.
const keysWord = "{bundleKeys}"

func bundleField() Field {
	return Field{Name: "bundle", Label: "Bundle", form: bundleForm, whole: Settings.BundlePath}
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

// named returns a setting by its placeholder in words, and the flag that sets it.
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
	if slices.Contains(a.words, keysWord) && s.Bundles == "" && len(s.BundleKeys) == 0 {
		return "--bundle-key FILE"
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
	return a.fill(s, func(_, value string) string { return value }, func(name string) (string, error) { return a.checked(s, name, values[name]) })
}

// fill returns the words of the command. setting gets the flag and the value of a setting, and field the name of a field.
func (a Action) fill(s Settings, setting func(flag, value string) string, field func(name string) (string, error)) (words []string, err error) {
	for _, word := range a.words {
		name, isValue := strings.CutPrefix(strings.TrimSuffix(word, "}"), "{")
		value, flag, isSetting := s.named(name)
		switch {
		case word == keysWord:
			words = append(words, s.keyWords()...)
			continue
		case isSetting:
			word = setting(flag, value)
		case isValue:
			if word, err = field(name); err != nil {
				return nil, err
			}
		}
		words = append(words, word)
	}
	return words, nil
}

// checked returns the word for the value of a field.
func (a Action) checked(s Settings, name, value string) (string, error) {
	field := a.Fields[slices.IndexFunc(a.Fields, func(f Field) bool { return f.Name == name })]
	if !field.form.MatchString(value) {
		return "", fmt.Errorf("%s: choose one of the list", strings.ToLower(field.Label))
	}
	if field.whole == nil {
		return value, nil
	}
	return field.whole(s, value)
}

// Example returns the command line of the action, with a word in capitals for each setting and field that has no value.
func (a Action) Example(s Settings, values map[string]string) string {
	words, _ := a.fill(s, func(flag, value string) string {
		_, placeholder, _ := strings.Cut(flag, " ")
		return cmp.Or(value, placeholder)
	}, func(name string) (string, error) { return cmp.Or(values[name], strings.ToUpper(name)), nil })
	return Line(words...)
}
