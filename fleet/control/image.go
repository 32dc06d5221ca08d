package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/sealift/sealift/fleet/configuration"
	"github.com/sealift/sealift/fleet/content"
	"github.com/sealift/sealift/fleet/inventory"
	"github.com/sealift/sealift/fleet/ocm"
	"github.com/sealift/sealift/fleet/template"
	"github.com/sealift/sealift/store/release"
)

// lookUpTime bounds how long the hub looks for images in its store.
const lookUpTime = 10 * time.Minute

// images knows which content the images of templates have. The deciding hub looks for them in its store before it gives a template to the
// first cluster, and stores what it found. From then on, every cluster gets that content until the template changes: other content under
// the same tag would bypass the rollout.
//
// It is stored in a ConfigMap for each template. A key of it is one content of the template.
type images struct {
	*controllers

	known   memory[string, pins]   // by key; buys a read of a ConfigMap whenever an add-on of a cluster is looked at
	lookups memory[string, lookUp] // by image; saves all but one lookup in the store per LookupInterval, for all clusters
	slot    chan struct{}          // one lookup at a time

	ctx   context.Context //nolint:containedctx // of what looks for images
	again func(reconcile.Request)
}

// pins are the images of one content of a template.
type pins struct {
	// AsNamed means that clusters had the template before there was a store: its images keep their names.
	AsNamed bool `json:"asNamed,omitempty"`
	// Digests are those of all images that were given to a cluster, "" for those that keep their names.
	Digests map[string]string `json:"digests,omitempty"`
}

// lacks returns the images that are neither known nor pinned by the template itself.
func (p pins) lacks(images []string) []string {
	if p.AsNamed {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(images), func(image string) bool {
		_, known := p.Digests[image]
		return known || template.Pinned(image)
	})
}

// lookUp looks for images of one content of a template.
type lookUp struct {
	what      string // identifies it
	images    []string
	uncarried bool // images that no package carries are allowed
	ended     time.Time
	why       string            // it failed, or the one before it for the same images
	listed    []release.Package // it did not find all images among these
}

func newImages(c *controllers) *images {
	return &images{controllers: c, slot: make(chan struct{}, 1)}
}

// start sets the function to call when images are known.
func (i *images) start(ctx context.Context, q queue) error {
	i.ctx, i.again = ctx, func(r reconcile.Request) { q.Add(r) }
	return nil
}

// key is the key of one content of a template. A recreated template has another UID.
func (a *agent) key() string { return string(a.template.GetUID()) + "." + a.hash }

func (i *images) configMap(a *agent) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "images." + a.template.GetName(), Namespace: i.hub.Namespace}}
}

// errUnpinned means that the hub has not looked for the images of an agent yet, or that its store lacks some.
var errUnpinned = errors.New("the content of its images is not known")

// digests returns the digests of the images of an agent that a cluster gets. works are those that it has: a template from before there was
// a store keeps the names of its images also if that is not stored yet.
func (i *images) digests(ctx context.Context, a *agent, works []ocm.ManifestWork) (map[string]string, error) {
	p, known := i.known.get(a.key())
	if known && p.AsNamed {
		return nil, nil
	}
	names, err := template.Named(a.Input)
	if err != nil || known && len(p.lacks(names)) == 0 {
		return p.Digests, err
	}
	p, known, err = i.read(ctx, a)
	switch {
	case err != nil:
	case i.Store != nil && len(p.lacks(names)) > 0 && (known || !slices.ContainsFunc(works, a.made)):
		err = errUnpinned
	case i.Store == nil && !known:
		i.known.put(a.key(), pins{AsNamed: true})
	}
	return p.Digests, err
}

// made reports whether a work was made from this content of the template.
func (a *agent) made(w ocm.ManifestWork) bool {
	var hashes map[string]string
	_ = json.Unmarshal([]byte(w.Annotations[configuration.HashAnnotation]), &hashes) // what cannot be read, no hub has written
	return hashes[inventory.Templates.Resource+"."+inventory.Templates.Group+"//"+a.template.GetName()] == a.hash
}

// read reads the stored pins.
func (i *images) read(ctx context.Context, a *agent) (p pins, found bool, err error) {
	config := i.configMap(a)
	err = i.direct.Get(ctx, client.ObjectKeyFromObject(config), config)
	text, found := config.Data[a.key()]
	switch {
	case err == nil && found:
		err = json.Unmarshal([]byte(text), &p)
	case apierrors.IsNotFound(err):
		err = nil
	}
	if err != nil {
		return p, false, fmt.Errorf("read the digests of the images of AddOnTemplate %s in ConfigMap %s/%s: %w", a.template.GetName(), config.Namespace, config.Name, err)
	}
	if found {
		i.known.put(a.key(), p)
	}
	return p, found, nil
}

// write adds pins to the stored ones of one content of a template, and drops those of contents that no cluster has.
func (i *images) write(ctx context.Context, a *agent, p pins) error {
	config := i.configMap(a)
	err := i.direct.Get(ctx, client.ObjectKeyFromObject(config), config)
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	if text := config.Data[a.key()]; text != "" {
		if err := json.Unmarshal([]byte(text), &p); err != nil { // adds those that are stored; they hold
			return err
		}
	}
	text, err := json.Marshal(p)
	if err != nil {
		return err
	}
	var all ocm.List[ocm.ManagedClusterAddOn]
	if err := i.List(ctx, &all); err != nil {
		return err
	}
	if config.Data == nil {
		config.Data = make(map[string]string)
	}
	config.Data[a.key()] = string(text)
	maps.DeleteFunc(config.Data, func(key, _ string) bool {
		uid, hash, _ := strings.Cut(key, ".")
		return key != a.key() && (uid != string(a.template.GetUID()) || !had(all.Items, a.template.GetName(), hash))
	})
	config.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: ocm.AddOnVersion.String(), Kind: "AddOnTemplate", Name: a.template.GetName(), UID: a.template.GetUID(),
	}}
	if err := i.store(ctx, config); err != nil {
		return err
	}
	i.known.put(a.key(), p)
	return nil
}

// had reports whether any of some add-ons has, or is to get, one content of a template.
func had(addOns []ocm.ManagedClusterAddOn, name, hash string) bool {
	return slices.ContainsFunc(addOns, func(a ocm.ManagedClusterAddOn) bool {
		return slices.ContainsFunc(a.Status.ConfigReferences, func(ref ocm.StoredReference) bool {
			return ref.ConfigType == inventory.Templates && slices.ContainsFunc([]*ocm.ConfigHash{ref.DesiredConfig, ref.LastAppliedConfig}, func(c *ocm.ConfigHash) bool {
				return c != nil && c.Name == name && c.SpecHash == hash
			})
		})
	})
}

// want looks up the content of an agent's images, unless it is known. The add-on is called when that has ended. why names what was not
// found.
func (i *images) want(ctx context.Context, a *agent, names []string) (ended bool, why string, err error) {
	p, found := i.known.get(a.key())
	if !found {
		if p, found, err = i.read(ctx, a); err != nil {
			return false, "", err
		}
	}
	if !found {
		var works ocm.List[ocm.ManifestWork]
		if err := i.List(ctx, &works, client.HasLabels{ocm.AddOnLabel}, client.UnsafeDisableDeepCopy); err != nil {
			return false, "", err
		}
		p.AsNamed = slices.ContainsFunc(works.Items, a.made)
	}
	lacking := p.lacks(names)
	if len(lacking) == 0 && !found {
		err = i.write(ctx, a, p)
	}
	if err != nil || len(lacking) == 0 {
		return err == nil, "", err
	}
	ended, why = i.findMissing(a, lacking)
	return ended, why, nil
}

// findMissing looks for images, unless that is under way, or has failed just now.
func (i *images) findMissing(a *agent, lacking []string) (ended bool, why string) {
	next := lookUp{images: lacking, uncarried: a.template.GetAnnotations()[inventory.Uncarried] == "true"}
	next.what = fmt.Sprint(a.key(), lacking, next.uncarried)
	i.lookups.change(next.what, func(last lookUp, found bool) (lookUp, bool) {
		next.why, next.listed = last.why, last.listed
		if found && (last.ended.IsZero() || time.Since(last.ended) < i.LookupInterval) {
			return last, true
		}
		go i.lookup(i.ctx, a, next)
		return next, true
	})
	return next.why != "", next.why
}

// lookup looks up images, stores the result, and calls the add-on.
func (i *images) lookup(ctx context.Context, a *agent, l lookUp) {
	ctx, cancel := context.WithTimeout(ctx, lookUpTime)
	defer cancel()
	var digests map[string]string
	var err error
	select {
	case <-ctx.Done():
		err = ctx.Err()
	case i.slot <- struct{}{}:
		digests, err = i.find(ctx, a, &l)
		<-i.slot
	}
	if err == nil {
		err = i.write(ctx, a, pins{Digests: digests})
	}
	if err == nil {
		i.lookups.forget(l.what)
	} else {
		if why := err.Error(); why != l.why {
			l.why = why
			i.log.WarnContext(ctx, "an add-on is given to no cluster, because its images are not all known", "template", a.template.GetName(), "error", err)
		}
		l.ended = time.Now()
		i.lookups.put(l.what, l)
	}
	i.again(reconcile.Request{NamespacedName: types.NamespacedName{Name: a.AddOn}})
}

// find returns the digests of images by the packages of the store.
func (i *images) find(ctx context.Context, a *agent, l *lookUp) (digests map[string]string, err error) {
	list, err := i.Store.List(ctx)
	if err != nil {
		return nil, fmt.Errorf("list the packages of the store: %w", err)
	}
	if l.listed != nil && slices.Equal(l.listed, list.Packages) {
		return nil, errors.New(l.why)
	}
	l.listed = nil
	found, err := content.Find(ctx, i.Store, list.Packages, l.images)
	if err := errors.Join(err, found.Close(), found.Err()); err != nil {
		return nil, err
	}
	if len(found.Missing) > 0 && !l.uncarried {
		l.listed = list.Packages
		return nil, fmt.Errorf("no package of the hub's store contains %s; publish one, or, if clusters get it from elsewhere, run: kubectl annotate addontemplate %s %s=true",
			strings.Join(found.Missing, ", "), a.template.GetName(), inventory.Uncarried)
	}
	for _, image := range found.Missing {
		found.Digests[image] = ""
	}
	return found.Digests, nil
}

// missing returns the clusters that do not get their decided configuration, because the content of its images is unknown, and why.
// ended is false while the hub looks for images.
func (r *addOns) missing(ctx context.Context, f *inventory.AddOn, result configuration.Result, lookup *inventory.Lookup) (missing map[string]string, ended bool, err error) {
	if r.Store == nil || !inventory.UsesTemplate(f.ClusterManagementAddOn) {
		return nil, true, nil
	}
	at := installedAt(f)
	missing, ended = make(map[string]string), true
	answers := make(map[string]string)
	for _, d := range result.AddOns {
		refs := f.Refresh(at[d.Cluster], d.References, lookup)
		key := desired(refs)
		why, asked := answers[key]
		if !asked {
			agent, err := r.agent(ctx, at[d.Cluster], refs)
			if err != nil || agent == nil {
				continue // its deployment has the reason
			}
			names, err := template.Named(agent.Input)
			if err != nil {
				continue
			}
			var now bool
			if now, why, err = r.images.want(ctx, agent, names); err != nil {
				return nil, false, err
			}
			ended = ended && now
			answers[key] = why
		}
		if why != "" {
			missing[d.Cluster] = why
		}
	}
	return missing, ended, nil
}

// desired identifies the configurations that the hub renders.
func desired(refs []ocm.ConfigReference) string {
	var all strings.Builder
	for _, ref := range refs {
		if ref.DesiredConfig != nil && (ref.ConfigType == inventory.Templates || ref.ConfigType == inventory.DeploymentConfigs) {
			fmt.Fprintln(&all, ref.Resource, *ref.DesiredConfig)
		}
	}
	return all.String()
}

// withhold reports why an add-on is given to no cluster.
func (r *addOns) withhold(ctx context.Context, f *inventory.AddOn, result configuration.Result, missing map[string]string) error {
	const reason = "ImagesMissing"
	at := installedAt(f)
	var errs []error
	why := ""
	for _, cluster := range slices.Sorted(maps.Keys(missing)) {
		why = missing[cluster]
		a := at[cluster]
		after := copyOf(a)
		r.set(&after.Status.Conditions, "Configured", "False", reason, why)
		errs = append(errs, client.IgnoreNotFound(r.patchStatus(ctx, a, after)))
	}
	after := copyOf(f.ClusterManagementAddOn)
	after.Status.InstallProgressions = r.progressions(f, result, nil)
	for n := range after.Status.InstallProgressions {
		r.set(&after.Status.InstallProgressions[n].Conditions, "Progressing", "True", reason, why)
	}
	errs = append(errs, r.patchStatus(ctx, f.ClusterManagementAddOn, after))
	return errors.Join(errs...)
}
