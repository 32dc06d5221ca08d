package addon

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/yaml"
)

// Policy says when an owner applies an add-on.
type Policy string

// The policies.
const (
	Once       Policy = "Once"       // apply it once, and then leave it alone
	OnChange   Policy = "OnChange"   // apply it when its version, content or options change; manual edits stay until then
	Continuous Policy = "Continuous" // keep it as it should be: manual edits are reverted
)

// The kinds of owners.
const (
	InstallerKind = "installer"
	ChannelKind   = "channel"
	CommandKind   = "addon-apply"
)

// Owner is the program that applies an add-on.
type Owner struct {
	Kind string // such as installer or channel
	Name string // distinguishes owners of one kind, such as kube-system/flannel; empty for the installer
}

// Installer owns what 'sealift install' applies.
func Installer() Owner { return Owner{Kind: InstallerKind} }

// Command owns what 'sealift addon apply' applies to clusters that Sealift did not install.
func Command() Owner { return Owner{Kind: CommandKind} }

// Channel owns an add-on that channels list under this name in this namespace.
func Channel(namespace, name string) Owner {
	return Owner{Kind: ChannelKind, Name: namespace + "/" + name}
}

// String returns the kind and the name.
func (o Owner) String() string { return strings.TrimSpace(o.Kind + " " + o.Name) }

// MarshalText returns the kind and the name.
func (o Owner) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (o *Owner) UnmarshalText(text []byte) error {
	o.Kind, o.Name, _ = strings.Cut(strings.TrimSpace(string(text)), " ")
	return o.check()
}

func (o Owner) check() error {
	if o.Kind == "" {
		return errors.New("an owner has a kind, such as installer")
	}
	return nil
}

// Applied is the content that was applied last. Only digests of options and secrets are recorded.
type Applied struct {
	Version string `json:"version,omitempty"`
	Digest  string `json:"digest,omitempty"`  // of the package or the manifest
	Options string `json:"options,omitempty"` // digest of the options
	// Provides and Requires are what the content declares, capabilities and names parted by commas. Only the owner Command records them.
	Provides string `json:"provides,omitempty"`
	Requires string `json:"requires,omitempty"`
}

// Ownership is one owner's claim to an add-on.
type Ownership struct {
	Owner   Owner  `json:"owner"`
	Policy  Policy `json:"policy"`
	Set     string `json:"set"` // the ApplySet with the objects, as namespace/name
	Applied `json:",inline"`
}

func (o Ownership) check() error {
	if err := o.Owner.check(); err != nil {
		return fmt.Errorf("%s: %w", keyOwner, err)
	}
	if o.Set == "" {
		return fmt.Errorf("%s must not be empty", keySet)
	}
	if !slices.Contains([]Policy{Once, OnChange, Continuous}, o.Policy) {
		return fmt.Errorf("%s %q is not one of %s, %s and %s", keyPolicy, o.Policy, Once, OnChange, Continuous)
	}
	return nil
}

// Past is a former ownership.
type Past struct {
	Ownership `json:",inline"`
	Until     time.Time `json:"until"`
}

// Record is the owner record of one add-on of a cluster.
type Record struct {
	Name string `json:"name"`
	Ownership
	// Moving is the set that objects may still have to leave, while a handover is under way.
	Moving string `json:"moving,omitempty"`
	// Released is the owner that gave the add-on back. It adopts the add-on again only on request.
	Released *Owner `json:"released,omitempty"`
	// History has the former owners, the last one at the end.
	History []Past `json:"history,omitempty"`

	version string // the resourceVersion that was read; empty when there is no record yet
}

// Capabilities lists the name of the add-on and what it provides.
func (r Record) Capabilities() []string { return append([]string{r.Name}, words(r.Provides)...) }

// Needs lists the names and capabilities that the add-on requires.
func (r Record) Needs() []string { return words(r.Requires) }

func words(text string) []string {
	return strings.FieldsFunc(text, func(c rune) bool { return c == ',' })
}

// Former returns the ownership that the add-on returns to: the last one of another owner.
func (r Record) Former() (Past, bool) {
	for _, past := range slices.Backward(r.History) {
		if past.Owner != r.Owner {
			return past, true
		}
	}
	return Past{}, false
}

// maxHistory bounds the former ownerships that a record keeps.
const maxHistory = 20

// setOwner makes another the owner. Applied objects are not changed.
func (r *Record) setOwner(to Ownership, now time.Time) {
	r.History = append(r.History, Past{r.Ownership, now.UTC().Truncate(time.Second)})
	r.History = r.History[max(0, len(r.History)-maxHistory):]
	r.Moving = r.Set
	to.Applied = r.Applied
	r.Ownership, r.Released = to, nil
}

// The keys of a record's ConfigMap. They are flat, so that kubectl can print each as a column.
const (
	keySchema   = "apiVersion"
	keyName     = "name"
	keyOwner    = "owner"
	keyPolicy   = "policy"
	keySet      = "set"
	keyVersion  = "version"
	keyDigest   = "digest"
	keyOptions  = "options"
	keyProvides = "provides"
	keyRequires = "requires"
	keyMoving   = "moving"
	keyReleased = "released"
	keyHistory  = "history"

	schemaVersion = "sealift.dev/v1"
)

// encode writes the record as the data of a ConfigMap.
func (r Record) encode() (map[string]string, error) {
	data := map[string]string{
		keySchema: schemaVersion, keyName: r.Name, keyOwner: r.Owner.String(), keyPolicy: string(r.Policy), keySet: r.Set,
		keyVersion: r.Version, keyDigest: r.Digest, keyOptions: r.Options, keyMoving: r.Moving,
		keyProvides: r.Provides, keyRequires: r.Requires,
	}
	if r.Released != nil {
		data[keyReleased] = r.Released.String()
	}
	if len(r.History) > 0 {
		history, err := yaml.Marshal(r.History)
		if err != nil {
			return nil, err
		}
		data[keyHistory] = string(history)
	}
	for key, value := range data {
		if value == "" {
			delete(data, key)
		}
	}
	return data, nil
}

// decode reads the data of a ConfigMap.
func decode(data map[string]string) (Record, error) {
	if data[keySchema] != schemaVersion {
		return Record{}, fmt.Errorf("its %s is %q, but this sealift reads %q: use the sealift that wrote it, or a newer one", keySchema, data[keySchema], schemaVersion)
	}
	r := Record{Name: data[keyName], Moving: data[keyMoving], Ownership: Ownership{
		Policy: Policy(data[keyPolicy]), Set: data[keySet],
		Applied: Applied{Version: data[keyVersion], Digest: data[keyDigest], Options: data[keyOptions], Provides: data[keyProvides], Requires: data[keyRequires]},
	}}
	if r.Name == "" {
		return Record{}, fmt.Errorf("%s must not be empty", keyName)
	}
	if err := r.Owner.UnmarshalText([]byte(data[keyOwner])); err != nil {
		return Record{}, fmt.Errorf("%s: %w", keyOwner, err)
	}
	if err := r.Ownership.check(); err != nil {
		return Record{}, err
	}
	if text := data[keyReleased]; text != "" {
		r.Released = &Owner{}
		if err := r.Released.UnmarshalText([]byte(text)); err != nil {
			return Record{}, fmt.Errorf("%s: %w", keyReleased, err)
		}
	}
	if err := yaml.Unmarshal([]byte(data[keyHistory]), &r.History); err != nil {
		return Record{}, fmt.Errorf("%s: %w", keyHistory, err)
	}
	for i, past := range r.History {
		if err := past.check(); err != nil {
			return Record{}, fmt.Errorf("%s: entry %d: %w", keyHistory, i+1, err)
		}
	}
	return r, nil
}
