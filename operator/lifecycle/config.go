package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/sealift/sealift/internal/diag"
	"github.com/sealift/sealift/kube"
	"github.com/sealift/sealift/operator/binding"
	"github.com/sealift/sealift/operator/values"
	"github.com/sealift/sealift/operator/watch"
)

// configRef is the ConfigMap of the administrators.
func (o *Operator) configRef() kube.Ref {
	return kube.Ref{Version: "v1", Kind: "ConfigMap", Namespace: o.options.Namespace, Name: o.options.ConfigMap}
}

// liveConfig reads the ConfigMap. One that does not exist is nil.
func (o *Operator) liveConfig(ctx context.Context) (*unstructured.Unstructured, error) {
	var live *unstructured.Unstructured
	err := o.cluster().Retry(ctx, o.configRef(), func(ctx context.Context) error {
		objects, err := o.cluster().Objects(ctx, o.configRef())
		if err != nil {
			return err
		}
		live, err = objects.Get(ctx, o.options.ConfigMap, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			live, err = nil, nil
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read ConfigMap %s/%s: %w", o.options.Namespace, o.options.ConfigMap, err)
	}
	return live, nil
}

func dataOf(live *unstructured.Unstructured) map[string]string {
	if live == nil {
		return nil
	}
	data, _, _ := unstructured.NestedStringMap(live.Object, "data")
	return data
}

// loadConfig reads the ConfigMap at the start. It must be valid then.
func (o *Operator) loadConfig(ctx context.Context) error {
	live, err := o.liveConfig(ctx)
	if err != nil {
		return err
	}
	config, err := values.ReadConfig(dataOf(live))
	if err == nil {
		err = o.store.checkConfig(config, nil)
	}
	if err != nil {
		return fmt.Errorf("ConfigMap %s/%s and values.yaml: %w", o.options.Namespace, o.options.ConfigMap, err)
	}
	o.store.use(config)
	o.warnUnknownKeys(ctx, nil, o.store.unknownKeys(config))
	return nil
}

// warnUnknownKeys warns of keys that belong to no module, such as mistyped ones. They have no effect.
func (o *Operator) warnUnknownKeys(ctx context.Context, before, now []string) {
	if len(now) == 0 || slices.Equal(before, now) {
		return
	}
	known := slices.Sorted(maps.Keys(o.store.modules))
	hints := make([]string, len(now))
	for i, key := range now {
		hints[i] = key
		if near := diag.Nearest(key, known); near != "" {
			hints[i] += " (did you mean " + near + "?)"
		}
	}
	o.log.WarnContext(ctx, "the ConfigMap has keys of no module; they have no effect", "configMap", o.configRef().String(), "keys", strings.Join(hints, ", "))
}

// readAgain is the pause before a failed read of the ConfigMap is retried.
const readAgain = 5 * time.Second

// wrongConfig is a mistake in the content of the ConfigMap. Other errors are about reading it.
type wrongConfig struct{ error }

func (w *wrongConfig) Unwrap() error { return w.error }

// followConfig reacts to edits of the ConfigMap until ctx ends.
func (o *Operator) followConfig(ctx context.Context) {
	changed := make(chan struct{}, 1)
	signal := func(watch.Change) {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	s := o.engine.Subscribe(binding.Kubernetes{
		APIVersion: "v1", Kind: "ConfigMap", Namespaces: []string{o.options.Namespace}, Names: []string{o.options.ConfigMap},
		Events: []binding.Event{binding.Added, binding.Modified, binding.Deleted},
	}, signal)
	s.Release()
	synced := s.Synced()
	var again <-chan time.Time
	for {
		select {
		case <-changed:
		case <-synced:
			synced = nil // what changed between the start and the first list
		case <-again:
		case <-ctx.Done():
			return
		}
		again = nil
		err := o.configChanged(ctx)
		wrong := (*wrongConfig)(nil)
		switch {
		case err == nil || ctx.Err() != nil:
		case errors.As(err, &wrong):
			o.telemetry.configErrors.Inc()
			o.log.ErrorContext(ctx, "the ConfigMap was changed and is wrong; what it said before stays in force",
				"configMap", o.configRef().String(), "error", err)
		default:
			again = time.After(readAgain)
			o.log.ErrorContext(ctx, "the ConfigMap was changed and cannot be read; it is tried again", "pause", readAgain.String(), "error", err)
		}
	}
}

// configChanged compares the ConfigMap with the active configuration. The operator's own writes are in force already, so they
// change nothing. It always reads the live object: an event may be older than a write.
func (o *Operator) configChanged(ctx context.Context) error {
	o.configMu.Lock()
	defer o.configMu.Unlock()
	live, err := o.liveConfig(ctx)
	if err != nil {
		return err
	}
	before := o.store.inForce()
	config, err := values.ReadConfig(dataOf(live))
	if err == nil {
		err = o.store.checkConfig(config, &before)
	}
	if err != nil {
		return &wrongConfig{err}
	}
	if reflect.DeepEqual(before, config) {
		return nil
	}
	o.store.use(config)
	o.warnUnknownKeys(ctx, o.store.unknownKeys(before), o.store.unknownKeys(config))
	o.mu.Lock()
	started := o.state.waiting || o.state.started // otherwise the first reload sees it
	o.mu.Unlock()
	if started {
		o.react(before, config)
		o.engine.Queues().Wake(binding.MainQueue)
	}
	return nil
}

// react queues the runs that a change of the configuration needs: of all modules, or of single ones.
func (o *Operator) react(before, after values.Config) {
	var runs []*unit
	everything := !reflect.DeepEqual(orEmpty(section(before, values.GlobalKey)), orEmpty(section(after, values.GlobalKey)))
	for _, u := range o.units {
		old, now := before.Modules[u.Key], after.Modules[u.Key]
		if !reflect.DeepEqual(old.Enabled, now.Enabled) {
			everything = true
		}
		if old.Unmanaged != now.Unmanaged || !reflect.DeepEqual(orEmpty(old.Values), orEmpty(now.Values)) {
			runs = append(runs, u)
		}
	}
	if everything {
		o.restart("configChanged")
		return
	}
	for _, u := range runs {
		o.queueRun(u, "configChanged")
	}
}

// patchConfig writes a hook's lasting patch to the ConfigMap, and creates it if necessary. The patch is applied to the live
// object, so an edit that is not active yet is neither lost nor missed. It reports whether it has written something, and whether flags are
// others now.
func (o *Operator) patchConfig(ctx context.Context, key string, operations []values.Operation) (wrote, flagged bool, err error) {
	if len(operations) == 0 {
		return false, false, nil
	}
	rest, flags, err := splitFlags(operations, key)
	if err != nil {
		return false, false, err
	}
	o.configMu.Lock()
	defer o.configMu.Unlock()
	ref := o.configRef()
	err = o.cluster().Retry(ctx, ref, func(ctx context.Context) error {
		live, err := o.liveConfig(ctx)
		if err != nil {
			return err
		}
		data, config, err := o.patched(dataOf(live), key, rest, flags)
		if err != nil || data == nil {
			return err
		}
		if err := o.writeConfig(ctx, live, data); err != nil {
			return err
		}
		wrote = true
		before := o.store.inForce()
		for name := range flags {
			flagged = flagged || !reflect.DeepEqual(before.Modules[name].Enabled, config.Modules[name].Enabled)
		}
		o.store.use(config)
		return nil
	})
	return wrote, flagged, err
}

// patched returns the ConfigMap's data after a patch, or nil if the patch changes nothing, and the resulting active configuration.
func (o *Operator) patched(live map[string]string, key string, rest []values.Operation, flags map[string]*bool,
) (data map[string]string, config values.Config, err error) {
	apart := separateFlag(live, key)
	was, err := values.ReadSection(key, apart[key])
	if err != nil {
		return nil, config, fmt.Errorf("ConfigMap key %s: %w", key, err)
	}
	was = orEmpty(was)
	result, differs, err := values.Apply(map[string]any{key: was}, rest, true)
	if err != nil {
		return nil, config, err
	}
	before := o.store.inForce()
	data, config = maps.Clone(live), clone(before)
	if data == nil {
		data = map[string]string{}
	}
	if differs {
		text, err := yaml.Marshal(result[key])
		if err != nil {
			return nil, config, err
		}
		data = apart
		data[key] = string(text)
		if err := setSection(&config, key, was, rest, result[key]); err != nil {
			return nil, config, err
		}
		if err := o.store.checkSection(key, config, &before); err != nil {
			return nil, config, err
		}
	}
	for name, flag := range flags {
		m := config.Modules[name]
		m.Enabled = flag
		config.Modules[name] = m
		data = separateFlag(data, name)
		if delete(data, name+values.EnabledSuffix); flag != nil {
			data[name+values.EnabledSuffix] = strconv.FormatBool(*flag)
		}
	}
	if maps.Equal(data, live) {
		return nil, config, nil
	}
	return data, config, nil
}

// separateFlag copies the ConfigMap's data. If the section of a module is a bare boolean, its flag gets its own key: a section
// cannot be added to a boolean, and a flag with another value would disagree with it.
func separateFlag(data map[string]string, name string) map[string]string {
	apart := maps.Clone(data)
	if apart == nil {
		apart = map[string]string{}
	}
	alone, err := values.ReadConfig(map[string]string{name: data[name]})
	flag := alone.Modules[name].Enabled
	if err != nil || flag == nil {
		return apart
	}
	delete(apart, name)
	if _, set := apart[name+values.EnabledSuffix]; !set {
		apart[name+values.EnabledSuffix] = strconv.FormatBool(*flag)
	}
	return apart
}

func clone(c values.Config) values.Config {
	c.Modules = maps.Clone(c.Modules)
	if c.Modules == nil {
		c.Modules = map[string]values.ModuleConfig{}
	}
	return c
}

// setSection sets the section that is in force. was is the live section before the patch. If it had an edit that is not active
// yet, that edit will still be noticed: only the patch counts here.
func setSection(c *values.Config, key string, was any, patch []values.Operation, after any) error {
	if now := orEmpty(section(*c, key)); !reflect.DeepEqual(now, was) {
		result, _, err := values.Apply(map[string]any{key: now}, patch, false)
		if err != nil {
			return err
		}
		after = result[key]
	}
	if key != values.GlobalKey {
		m := c.Modules[key]
		m.Values = after
		c.Modules[key] = m
		return nil
	}
	global, ok := after.(map[string]any)
	if !ok {
		return fmt.Errorf("values patch: %s must remain a map", key)
	}
	c.Global = global
	return nil
}

func (o *Operator) writeConfig(ctx context.Context, live *unstructured.Unstructured, data map[string]string) error {
	ref := o.configRef()
	objects, err := o.cluster().Objects(ctx, ref)
	if err != nil {
		return err
	}
	fields := make(map[string]any, len(data))
	for key, text := range data {
		fields[key] = text
	}
	if live == nil {
		_, err = objects.Create(ctx, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": ref.Version, "kind": ref.Kind, "metadata": map[string]any{"namespace": ref.Namespace, "name": ref.Name}, "data": fields,
		}}, metav1.CreateOptions{})
		return err
	}
	wanted := live.DeepCopy()
	wanted.Object["data"] = fields
	_, err = objects.Update(ctx, wanted, metav1.UpdateOptions{})
	return err
}
