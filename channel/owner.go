package channel

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/sealift/sealift/addon"
	"github.com/sealift/sealift/kube"
)

// ownership returns the ownership by which a channel manages the add-on of an entry. What a user edits stays until the entry changes.
func ownership(e Entry) addon.Ownership {
	return addon.Ownership{Owner: addon.Channel(e.Namespace, e.Name), Policy: addon.OnChange, Set: setOf(e).String()}
}

// recordsOf opens the records of the add-ons' owners.
func (c *Cluster) recordsOf() addon.Records {
	records := addon.RecordsOf(c.engine.Dynamic())
	records.Retry = func(ctx context.Context, request func(context.Context) error) error {
		return c.retry(ctx, kube.Ref{Kind: "ConfigMap", Namespace: addon.Namespace}, request)
	}
	return records
}

// ownerOf finds the record of an entry's add-on, and the name that it has or would have. Channels may list one name in several
// namespaces (K-19): the first has the plain name, which is also the installer's.
func (c *Cluster) ownerOf(ctx context.Context, e Entry) (name string, record addon.Record, found bool, err error) {
	own := ownership(e).Owner
	if record, found, err = c.recordsOf().Get(ctx, own.Name); found || err != nil {
		return own.Name, record, found, err
	}
	record, found, err = c.recordsOf().Get(ctx, e.Name)
	if found && record.Owner.Kind == addon.ChannelKind && record.Owner != own {
		return own.Name, addon.Record{}, false, nil
	}
	return e.Name, record, found, err
}

// own makes the channel the owner of an add-on before its objects are applied. An add-on without a record is recorded after it
// is applied: until then its objects may be foreign.
func (p *pass) own(ctx context.Context, a *addOn) error {
	records, to := p.recordsOf(), ownership(a.Entry)
	name, record, found, err := p.ownerOf(ctx, a.Entry)
	switch {
	case err != nil || !found:
		return err
	case a.Action == Adopt && record.Owner != to.Owner:
		p.report("add-on %q moves from %s to %s", name, record.Owner, to.Owner)
		_, err = records.Adopt(ctx, name, record.Owner, to, p.engine.AdoptNamed)
		return err
	}
	if record, err = records.Claim(ctx, name, to); err == nil {
		_, err = records.Finish(ctx, record, p.engine.AdoptNamed)
	}
	return err
}

// applied records what the channel has applied.
func (p *pass) applied(ctx context.Context, e Entry) error {
	name, _, _, err := p.ownerOf(ctx, e)
	if err != nil {
		return err
	}
	records, own := p.recordsOf(), ownership(e)
	if _, err := records.Claim(ctx, name, own); err != nil {
		return err
	}
	_, err = records.SetApplied(ctx, name, own.Owner, addon.Applied{Version: VersionOf(e.Version), Digest: e.ManifestHash})
	return err
}

// VersionOf returns a version or "".
func VersionOf(version *string) string {
	if version == nil {
		return ""
	}
	return *version
}

// withOwners adds the owners of add-ons, and their earlier owners, to the channels' records. It sorts all by namespace and name. An
// adopted add-on whose first update did not succeed counts as the former owner's: that one's version is the one to compare with.
func withOwners(found []Installed, owners []addon.Record) []Installed {
	for _, r := range owners {
		namespace, name := "", r.Name
		if r.Owner.Kind == addon.ChannelKind {
			namespace, name, _ = strings.Cut(r.Owner.Name, "/")
		}
		at := slices.IndexFunc(found, func(i Installed) bool { return i.Namespace == namespace && i.Name == name })
		if r.Owner.Kind != addon.ChannelKind {
			other := Installed{Name: name, Owner: r.Owner.String()}
			if r.Version != "" {
				other.Version = &r.Version
			}
			if r.Released != nil {
				other.Released = r.Released.Name
			}
			found = append(found, other)
		} else if former, ok := r.Former(); ok && at >= 0 {
			found[at].Former = strings.TrimSpace(former.Owner.String() + " " + former.Version)
		} else if ok && r.Applied == former.Applied {
			half := Installed{Namespace: namespace, Name: name, Owner: former.Owner.String()}
			if former.Version != "" {
				half.Version = &former.Version
			}
			found = append(found, half)
		}
	}
	slices.SortStableFunc(found, func(a, b Installed) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return found
}

// adoption decides about an add-on with another owner than a channel. One that was released stays where it is unless it is to
// be adopted again.
func adoption(e Entry, other Installed, again []string) Decision {
	d := Decision{Entry: e, Action: Adopt, From: other.Owner}
	own := ownership(e).Owner.Name
	if other.Owner != addon.Installer().String() {
		d.Action, d.Reason = Conflict, other.Owner+" owns it: release it there first"
		return d
	}
	if other.Released == own && !slices.Contains(again, e.Name) && !slices.Contains(again, own) {
		d.Action, d.Reason = Keep, fmt.Sprintf("it was released to the installer; --adopt %s adopts it again", e.Name)
		return d
	}
	d.Reason = "it is adopted from the installer, which applied version " + cmp.Or(VersionOf(other.Version), "(none yet)")
	if other.Version == nil {
		return d
	}
	d.Installed = &Record{Version: other.Version}
	if replace, why := d.Installed.ReplacedBy(e.record()); VersionOf(e.Version) != *other.Version {
		d.Reason = d.Reason + "; " + why
		if !replace {
			d.Action, d.Reason = Keep, "it stays with the installer: "+why
		}
		if !replace && other.Namespace != "" {
			d.Reason = fmt.Sprintf("its adoption has begun and is not finished: %s; 'sealift channel release %s' returns it to the installer", why, own)
		}
	}
	return d
}

// Handback is an add-on that a channel returns to its former owner.
type Handback struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	Version   string `json:"version,omitempty"` // that the channel applied
	To        string `json:"to"`
	Had       string `json:"had,omitempty"` // the version that the former owner had applied
	Done      bool   `json:"done,omitempty"`

	record string
}

func (h Handback) String() string {
	if h.Done {
		return fmt.Sprintf("add-on %q was given back to %s", h.Name, h.To)
	}
	return fmt.Sprintf("add-on %q at version %s goes back to %s, which had applied version %s", h.Name, cmp.Or(h.Version, "?"), h.To, cmp.Or(h.Had, "?"))
}

// PlanRelease finds an add-on by its name, or by namespace/name, and names the owner that it returns to.
func (c *Cluster) PlanRelease(ctx context.Context, addOn string) (Handback, error) {
	records, err := c.recordsOf().List(ctx)
	if err != nil {
		return Handback{}, err
	}
	var found []Handback
	var names []string
	for _, r := range records {
		h := Handback{Version: r.Version, record: r.Name}
		channel := r.Owner
		if r.Released != nil && r.Owner.Kind != addon.ChannelKind {
			channel, h.Done, h.To = *r.Released, r.Moving == "", r.Owner.String()
		}
		var ok bool
		if h.Namespace, h.Name, ok = strings.Cut(channel.Name, "/"); channel.Kind != addon.ChannelKind || !ok || addOn != h.Name && addOn != channel.Name {
			continue
		}
		if former, ok := r.Former(); ok && h.To == "" {
			h.To, h.Had = former.Owner.String(), former.Version
		}
		found, names = append(found, h), append(names, channel.Name)
	}
	switch {
	case len(found) == 0:
		return Handback{}, fmt.Errorf("no channel owns an add-on %q in this cluster; 'sealift channel get' lists them", addOn)
	case len(found) > 1:
		return Handback{}, fmt.Errorf("add-on %q exists more than once: name one of %s", addOn, strings.Join(names, ", "))
	case found[0].To != addon.Installer().String():
		return Handback{}, fmt.Errorf("add-on %q was not adopted from the installer, so it cannot be returned to it", addOn)
	}
	return found[0], nil
}

// Release returns an add-on to the installer: its objects move unchanged, and the record of the channel is removed. Repeat the
// call to finish one that was interrupted. note, which may be nil, gets a line when another run is waited for.
func (c *Cluster) Release(ctx context.Context, addOn string, note func(string)) error {
	engine := kube.New(c.engine.Cluster, kube.Options{})
	return c.withLease(ctx, note, func(ctx context.Context) error {
		h, err := c.PlanRelease(ctx, addOn)
		if err != nil {
			return err
		}
		if _, err := c.recordsOf().GiveBack(ctx, h.record, addon.Channel(h.Namespace, h.Name), engine.AdoptNamed); err != nil {
			return err
		}
		if err := c.annotate(ctx, named(namespaces, h.Namespace), recordPrefix+h.Name, nil); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("remove the record of add-on %q from namespace %q: %w", h.Name, h.Namespace, err)
		}
		return nil
	})
}
