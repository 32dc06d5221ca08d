// Package carry is the hub's side of disconnected clusters: it packs parcels for them, and reads the reports that come back.
package carry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/bundle/signature"
	"github.com/sealift/sealift/catalog/packages"
	"github.com/sealift/sealift/fleet/content"
	"github.com/sealift/sealift/fleet/join"
	"github.com/sealift/sealift/fleet/ledger"
	"github.com/sealift/sealift/fleet/ocm"
	"github.com/sealift/sealift/fleet/parcel"
	"github.com/sealift/sealift/fleet/proxy"
	"github.com/sealift/sealift/fleet/seal"
	"github.com/sealift/sealift/fleet/template"
	"github.com/sealift/sealift/internal/atomicfile"
)

// Hub is the hub that packs parcels.
type Hub struct {
	client.Client
	Ledger *ledger.Ledger
	Now    func() time.Time
	// ChartSchemes and SecretNamespaces are as in proxy.Options, for charts that are packed.
	ChartSchemes, SecretNamespaces []string
}

func (h Hub) releases() proxy.Carrier {
	return proxy.Carrier{Client: h.Client, Schemes: h.ChartSchemes, SecretNamespaces: h.SecretNamespaces}
}

// Pack selects what to pack.
type Pack struct {
	Cluster string
	// Out is the file to write.
	Out string
	// Store has the packages with the images of works, which its Signers must have signed. Nil packs no content.
	Store *packages.Source
	// Since is a report of the cluster. What it has is left out.
	Since []byte
	// Spool is a folder for large files while they are packed.
	Spool string
	Plan  bool
}

// Packed describes what was packed, or would be.
type Packed struct {
	Cluster string `json:"cluster"`
	// Sequence is the number of the parcel, 0 in a plan.
	Sequence int64    `json:"sequence,omitempty"`
	File     string   `json:"file,omitempty"`
	Works    []string `json:"works"`
	Deleted  []string `json:"deleted,omitempty"`
	Packages []string `json:"packages,omitempty"`
	// Releases are Helm releases, by namespace and name of their HelmReleaseProxies.
	Releases []string `json:"releases,omitempty"`
	// Bytes is the size of the parcel, and Left how many bytes of files it leaves out.
	Bytes int64 `json:"bytes"`
	Left  int64 `json:"leftOutBytes,omitempty"`
	// Images are those of works and charts. Uncarried are not in the parcel because no store was named. Unknown are charts whose
	// images are not known before they are installed, or that are installed once and gone since, and why.
	Images    []string `json:"images,omitempty"`
	Uncarried []string `json:"uncarried,omitempty"`
	Unknown   []string `json:"unknown,omitempty"`
	// Unusable are packages of the store that may carry images and could not be read, and why. All images are in other packages.
	Unusable []string `json:"unusable,omitempty"`
}

// Pack writes a parcel for a cluster.
func (h Hub) Pack(ctx context.Context, p Pack) (out Packed, err error) {
	var cluster ocm.ManagedCluster
	if err := h.Get(ctx, types.NamespacedName{Name: p.Cluster}, &cluster); err != nil {
		return out, fmt.Errorf("read cluster %s: %w; 'sealift fleet clusters' lists those that joined", p.Cluster, err)
	}
	if !cluster.Spec.HubAcceptsClient {
		return out, fmt.Errorf("the hub does not accept cluster %s, and signs nothing for it: set spec.hubAcceptsClient of its ManagedCluster", p.Cluster)
	}
	key, err := h.Ledger.Key(ctx)
	if err != nil {
		return out, err
	}
	works, err := h.signed(ctx, p.Cluster, key)
	if err != nil {
		return out, err
	}
	since, err := sinceOf(&cluster, p.Since)
	if err != nil {
		return out, err
	}
	out = Packed{Cluster: p.Cluster, Works: []string{}, Images: images(works)}
	made := parcel.Parcel{Format: parcel.Format, Cluster: p.Cluster, Time: h.Now().UTC().Truncate(time.Second), Works: []parcel.Work{}}
	for _, w := range works {
		one := parcel.Work{Name: w.Name, Seal: w.Annotations[seal.Annotation], Spec: w.Spec, Deleted: !w.DeletionTimestamp.IsZero()}
		if one.Deleted {
			if one.Seal, err = plainSeal(w, one.Seal, key); err != nil {
				return out, fmt.Errorf("sign work %s: %w", w.Name, err)
			}
		}
		made.Works = append(made.Works, one)
		if one.Deleted {
			out.Deleted = append(out.Deleted, w.Name)
		} else {
			out.Works = append(out.Works, w.Name)
		}
	}
	charts, err := h.packReleases(ctx, &made, &out)
	if err != nil {
		return out, err
	}
	archives, err := h.archives(ctx, p.Store, &out)
	defer func() {
		for _, a := range archives {
			err = errors.Join(err, a.Close())
		}
	}()
	if err != nil {
		return out, err
	}
	if !p.Plan {
		if err := errors.Join(h.mark(ctx, works), h.releases().Mark(ctx, made.Releases)); err != nil {
			return out, err
		}
		floor, _ := strconv.ParseInt(cluster.Annotations[seal.ContinueAfter], 10, 64)
		next, err := h.Ledger.Next(ctx, p.Cluster, floor, h.Now())
		if err != nil {
			return out, err
		}
		made.Sequence, made.Time = next.Sequence, next.Time
	}
	err = write(ctx, p, made, charts, bundle.Bundle{Packages: archives, Since: since, Key: key}, &out)
	return out, err
}

// plainSeal returns the seal of a deleted work without the word that it is deleted, which agents of older versions cannot read.
// The signed parcel says it. The seal has the lowest number, so that nobody can restore the work with it.
func plainSeal(w *ocm.ManifestWork, text string, key *signature.Key) (string, error) {
	s, err := seal.Read(text)
	if err != nil {
		return "", err
	}
	s.Deleted, s.Sequence, s.Time = false, 1, w.CreationTimestamp.Time
	return s.Statement.Sign(key)
}

// signed returns the works of a cluster, each with the hub's seal.
func (h Hub) signed(ctx context.Context, cluster string, key *signature.Key) ([]*ocm.ManifestWork, error) {
	public, err := key.Public()
	if err != nil {
		return nil, err
	}
	var list ocm.List[ocm.ManifestWork]
	if err := h.List(ctx, &list, client.InNamespace(cluster)); err != nil {
		return nil, fmt.Errorf("read the works of cluster %s: %w", cluster, err)
	}
	policy := seal.Policy{Cluster: cluster, Keys: []signature.PublicKey{public}}
	var works []*ocm.ManifestWork
	for i := range list.Items {
		w := &list.Items[i]
		if _, _, _, err := policy.Origin(w.Name, w.Annotations[seal.Annotation], w.Spec); err != nil {
			if w.DeletionTimestamp.IsZero() {
				return nil, fmt.Errorf("work %s has no signature of this hub for its content: %w; does the hub run?", w.Name, err)
			}
			continue // no agent ever took it
		}
		works = append(works, w)
	}
	slices.SortFunc(works, func(a, b *ocm.ManifestWork) int { return strings.Compare(a.Name, b.Name) })
	return works, nil
}

// sinceOf reads a report, and returns the content that the cluster has.
func sinceOf(cluster *ocm.ManagedCluster, file []byte) (*bundle.Since, error) {
	if file == nil {
		return nil, nil
	}
	r, err := verified(cluster, file)
	if err != nil {
		return nil, err
	}
	if r.Content == "" {
		return nil, nil
	}
	since, err := bundle.NewSince([]byte(r.Content))
	if err != nil {
		return nil, fmt.Errorf("read the content of the report: %w", err)
	}
	return since, nil
}

// verified reads a report and checks that a cluster signed it.
func verified(cluster *ocm.ManagedCluster, file []byte) (parcel.Report, error) {
	r, verify, err := parcel.ReadReport(file)
	if err != nil {
		return r, err
	}
	if r.Cluster != cluster.Name {
		return r, &seal.Refusal{Reason: seal.OtherCluster, Message: fmt.Sprintf("the report is of cluster %s, and %s is wanted", r.Cluster, cluster.Name)}
	}
	key, err := signature.ParsePublicKey([]byte(cluster.Annotations[join.AgentKey]))
	if err != nil {
		return r, fmt.Errorf("read the key of cluster %s in its annotation %s: %w; join the cluster again", cluster.Name, join.AgentKey, err)
	}
	return r, verify(key)
}

// images returns the images of works, sorted.
func images(works []*ocm.ManifestWork) []string {
	all := make(map[string]bool)
	for _, w := range works {
		if !w.DeletionTimestamp.IsZero() {
			continue
		}
		for _, m := range w.Spec.Workload.Manifests {
			for _, image := range template.Images(m) {
				all[image] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// archives opens the packages that carry the images. An image that no package carries is an error that names it.
func (h Hub) archives(ctx context.Context, from *packages.Source, out *Packed) (archives []*bundle.Archive, err error) {
	if from == nil {
		out.Uncarried = out.Images
		return nil, nil
	}
	list, err := from.List(ctx)
	if err != nil {
		return nil, fmt.Errorf("list the packages of the store: %w", err)
	}
	found, err := content.Find(ctx, from, list.Packages, out.Images)
	for _, p := range found.Packages {
		archives = append(archives, p.Archive)
		out.Packages = append(out.Packages, p.Name+" "+p.Version)
	}
	for _, unusable := range found.Unusable {
		out.Unusable = append(out.Unusable, unusable.Error())
	}
	if err == nil {
		err = found.Err()
	}
	if err == nil && len(found.Missing) > 0 {
		err = fmt.Errorf("no package of the store contains %s; build one, or pack without --store", strings.Join(found.Missing, ", "))
	}
	return archives, err
}

// mark adds the finalizer of an agent to works: from now on the cluster may have them, and they stay until it reports that they
// are gone.
func (h Hub) mark(ctx context.Context, works []*ocm.ManifestWork) error {
	for _, w := range works {
		if slices.Contains(w.Finalizers, ocm.WorkFinalizer) || !w.DeletionTimestamp.IsZero() {
			continue
		}
		if err := h.finalizers(ctx, w, append(slices.Clone(w.Finalizers), ocm.WorkFinalizer)); err != nil {
			return fmt.Errorf("record that work %s is packed: %w", w.Name, err)
		}
	}
	return nil
}

func (h Hub) finalizers(ctx context.Context, w *ocm.ManifestWork, list []string) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"finalizers": list, "resourceVersion": w.ResourceVersion}})
	if err != nil {
		return err
	}
	return h.Patch(ctx, w.DeepCopyObject().(client.Object), client.RawPatch(types.MergePatchType, patch)) //nolint:forcetypeassert // a copy has its own type
}

// write writes the bundle, or only counts its bytes.
func write(ctx context.Context, p Pack, made parcel.Parcel, charts map[string][]byte, b bundle.Bundle, out *Packed) (err error) {
	text, err := json.Marshal(made)
	if err != nil {
		return err
	}
	files := []bundle.File{bundle.BytesFile(parcel.Name, 0o644, text)}
	for _, name := range slices.Sorted(maps.Keys(charts)) {
		files = append(files, bundle.BytesFile(name, 0o644, charts[name]))
	}
	b.Members, err = bundle.Render(ctx, files, bundle.WriteOptions{Spool: p.Spool})
	if err != nil {
		return err
	}
	defer func() {
		for _, m := range b.Members {
			err = errors.Join(err, m.Close())
		}
	}()
	l, err := bundle.NewLayout(b)
	if err != nil {
		return err
	}
	out.Bytes = l.Size()
	for _, e := range l.Index.Entries {
		if e.Encoding == bundle.InBase {
			out.Left += e.Size
		}
	}
	if p.Plan {
		return nil
	}
	out.Sequence, out.File = made.Sequence, p.Out
	if err := atomicfile.Fill(p.Out, 0o644, func(f *os.File) error {
		_, err := bundle.WriteBundle(ctx, f, b)
		return err
	}); err != nil {
		return fmt.Errorf("write the parcel: %w", err)
	}
	return nil
}
