package channel

import (
	"encoding/json"
	"fmt"
)

// recordPrefix begins the annotations that record what is installed; the name of the add-on follows.
const recordPrefix = "addons.k8s.io/"

// systemGeneration counts the changes of how add-ons are applied that call for applying them again: 1 since prune.
const systemGeneration = 1

// Record describes an installed add-on, in an annotation of its namespace (K-18).
type Record struct {
	Version          *string `json:"version,omitempty"`
	Channel          string  `json:"channel,omitempty"`
	ID               string  `json:"id,omitempty"`
	ManifestHash     string  `json:"manifestHash,omitempty"`
	SystemGeneration int     `json:"systemGeneration,omitempty"`
}

// record returns the record that Apply writes once the entry is applied.
func (e Entry) record() Record {
	return Record{Version: e.Version, Channel: e.Channel, ID: e.ID, ManifestHash: e.ManifestHash, SystemGeneration: systemGeneration}
}

// Installed is the record of one add-on and where it was found.
type Installed struct {
	Namespace string `json:"namespace"` // empty where no channel has installed it or begun to adopt it
	Name      string `json:"name"`
	Record
	Owner    string `json:"owner,omitempty"`    // who applies it, if not a channel
	Former   string `json:"former,omitempty"`   // who applied it before the channel, and the version
	Released string `json:"released,omitempty"` // namespace/name under which a channel returned it
}

func parseRecord(text string) (Record, error) {
	var r Record
	err := json.Unmarshal([]byte(text), &r)
	return r, err
}

func (r Record) encode() (string, error) {
	data, err := json.Marshal(r)
	return string(data), err
}

// ReplacedBy reports whether a new record replaces this one, and why or why not: by version, id and hash where either has a
// version (K-14), by id, hash and generation where neither has one (K-15).
func (r Record) ReplacedBy(n Record) (replace bool, reason string) {
	if r.Version == nil && n.Version == nil {
		return r.replacedByContent(n)
	}
	return r.replacedByVersion(n)
}

func (r Record) replacedByVersion(n Record) (replace bool, reason string) {
	switch {
	case n.Version == nil:
		return false, fmt.Sprintf("version %s stays, since the new entry has no version", *r.Version)
	case r.Version == nil:
		return true, "no version is recorded, and the new one has " + *n.Version
	}
	oldText, newText := *r.Version, *n.Version
	after, err := parseVersion(newText)
	if err != nil {
		return false, fmt.Sprintf("version %s stays, since the new version %q cannot be read: %v", oldText, newText, err)
	}
	before, err := parseVersion(oldText)
	if err != nil {
		return true, fmt.Sprintf("the recorded version %q cannot be read: %v", oldText, err)
	}
	switch order := after.Compare(before); {
	case order < 0:
		return false, fmt.Sprintf("version %s stays, since %s is older", oldText, newText)
	case order > 0:
		return true, fmt.Sprintf("version %s is newer than %s", newText, oldText)
	case r.ID != n.ID:
		return true, fmt.Sprintf("same version %s, and id %q is not %q", newText, n.ID, r.ID)
	case r.ManifestHash != n.ManifestHash:
		return true, fmt.Sprintf("same version %s, and the manifest has changed", newText)
	}
	return false, fmt.Sprintf("version %s is up to date", oldText)
}

func (r Record) replacedByContent(n Record) (replace bool, reason string) {
	switch {
	case r.ID != n.ID:
		return true, fmt.Sprintf("id %q is not %q", n.ID, r.ID)
	case r.ManifestHash != n.ManifestHash:
		return true, "the manifest has changed"
	case r.SystemGeneration > n.SystemGeneration:
		return false, "a newer tool has applied it"
	case r.SystemGeneration < n.SystemGeneration:
		return true, "an older tool has applied it"
	}
	return false, "it is up to date"
}
