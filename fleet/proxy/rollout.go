package proxy

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sealift/sealift/fleet/caaph"
	"github.com/sealift/sealift/fleet/chartplan"
	"github.com/sealift/sealift/fleet/values"
	"github.com/sealift/sealift/internal/sandbox"
	"github.com/sealift/sealift/internal/sha256hex"
	"github.com/sealift/sealift/rollout"
)

// suffix makes the name of a cluster's HelmReleaseProxy unique, as the API server does with five characters.
func suffix(hcp *caaph.HelmChartProxy, c chartplan.Cluster) string {
	return sha256hex.Of(string(hcp.UID) + "/" + c.Name)[:5]
}

// These find objects that a template reads in addition to the cluster. Fields of a cluster, such as ControlPlaneEndpoint, are other
// words.
var (
	readsControlPlane = regexp.MustCompile(`\bControlPlane\b`)
	readsInfraCluster = regexp.MustCompile(`\bInfraCluster\b`)
)

// longestRendering is how long one pass renders values. 2,000 clusters take about a second. A pass keeps one of a few workers that all
// tenants share.
const longestRendering = 30 * time.Second

// render renders the values of a cluster. It reads the objects that the cluster refers to if the template needs them. A template that
// exceeded a limit for one cluster is not rendered for the others of this pass.
func (p *pass) render(ctx context.Context, c chartplan.Cluster, object *unstructured.Unstructured) (string, error) {
	if p.exceeded != nil {
		return "", p.exceeded
	}
	began := time.Now()
	text, err := p.renderOne(ctx, c, object)
	if p.rendering += time.Since(began); err == nil && p.rendering > longestRendering {
		err = &sandbox.LimitError{Name: "the valuesTemplate of HelmChartProxy " + p.hcp.Name, Limit: longestRendering.String() + " for all clusters"}
	}
	if errors.Is(err, sandbox.ErrLimit) {
		p.exceeded = err
	}
	return text, err
}

func (p *pass) renderOne(ctx context.Context, c chartplan.Cluster, object *unstructured.Unstructured) (string, error) {
	text := p.hcp.Spec.ValuesTemplate
	in := values.Input{Name: p.hcp.Spec.ChartName + "-" + c.Name, Tenant: p.hcp.Namespace, Template: text, Cluster: object.Object}
	var err error
	if readsControlPlane.MatchString(text) {
		if in.ControlPlane, err = p.clusters.referenced(ctx, object, "controlPlaneRef"); err != nil {
			return "", err
		}
	}
	if readsInfraCluster.MatchString(text) {
		if in.InfraCluster, err = p.clusters.referenced(ctx, object, "infrastructureRef"); err != nil {
			return "", err
		}
	}
	return values.Render(ctx, in)
}

// started returns the works that may start: all, or those that the rollout of the annotation starts (C-26). What the
// rollout remembers is stored before.
func (p *pass) started(ctx context.Context, works []work) []work {
	held, err := p.held(ctx)
	if err != nil {
		p.fail(waitsForOthers, err)
		return nil
	}
	var known []chartplan.Known
	for _, w := range works {
		known = append(known, chartplan.Known{Cluster: w.cluster, Action: w.action, Release: w.has, Blocked: w.blocked})
	}
	works = slices.DeleteFunc(works, func(w work) bool { return w.blocked })
	if p.hcp.Annotations[chartplan.RolloutAnnotation] == "" {
		return p.free(works, held)
	}
	stored, state, err := p.remembered(ctx)
	if err != nil {
		p.fail(rolloutFailed, err)
		return nil
	}
	result, err := chartplan.Advance(p.hcp, change(p.hcp), known, held, state, p.now())
	if err != nil {
		p.show(rolloutFailed, err.Error())
		return nil
	}
	if err := p.remember(ctx, stored, state, result.State); err != nil {
		p.fail(rolloutFailed, err)
		return nil
	}
	if !result.Again.IsZero() {
		p.again = min(p.again, max(time.Second, result.Again.Sub(p.now())))
	}
	p.free(slices.Clone(works), held) // which names the waiting one
	starts := result.With(rollout.Start)
	if waiting := result.With(rollout.Wait); result.Phase == rollout.Stopped {
		p.show(rolloutStopped, fmt.Sprintf("the rollout stopped, since more clusters failed than it allows: %s; %d clusters wait: %s",
			names(failed(result)), len(waiting), names(waiting)))
	} else if len(waiting) > 0 {
		p.show(specsUpdating, fmt.Sprintf("%d clusters wait for their turn in the rollout: %s", len(waiting), names(waiting)))
	}
	return slices.DeleteFunc(works, func(w work) bool { return !slices.Contains(starts, w.cluster.Name) })
}

func failed(r rollout.Result) (list []string) {
	for _, d := range r.Targets {
		if d.Status == rollout.Failed || d.Status == rollout.TimedOut {
			list = append(list, d.Name)
		}
	}
	return list
}

// change identifies the content of a rollout.
func change(hcp *caaph.HelmChartProxy) string {
	text, err := json.Marshal([]any{hcp.Spec.Chart, hcp.Spec.ValuesTemplate})
	if err != nil {
		return hcp.ResourceVersion // a spec from the API is JSON
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

// stateKey is the key with the state of a rollout.
const stateKey = "rollout.json"

func (p *pass) stateName() string { return "rollout-hcp-" + string(p.hcp.UID) }

// remembered reads the state of the rollout.
func (p *pass) remembered(ctx context.Context) (*corev1.ConfigMap, rollout.State, error) {
	var state rollout.State
	stored := new(corev1.ConfigMap)
	err := p.clusters.direct.Get(ctx, client.ObjectKey{Namespace: p.namespace, Name: p.stateName()}, stored)
	if client.IgnoreNotFound(err) != nil {
		return nil, state, err
	}
	if text := stored.Data[stateKey]; text != "" {
		if err := json.Unmarshal([]byte(text), &state); err != nil {
			return nil, state, fmt.Errorf("the state of the rollout in ConfigMap %s/%s is damaged; delete it to begin again: %w", p.namespace, p.stateName(), err)
		}
	}
	return stored, state, nil
}

// remember stores a state that changed. An older hub that does so at the same time fails.
func (p *pass) remember(ctx context.Context, stored *corev1.ConfigMap, had, now rollout.State) error {
	if reflect.DeepEqual(had, now) {
		return nil
	}
	text, err := json.Marshal(now)
	if err != nil {
		return err
	}
	stored.Data = map[string]string{stateKey: string(text)}
	if stored.ResourceVersion != "" {
		return p.Update(ctx, stored)
	}
	stored.ObjectMeta = metav1.ObjectMeta{
		Namespace: p.namespace, Name: p.stateName(),
		Annotations: map[string]string{"fleet.sealift.dev/helm-chart-proxy": p.hcp.Namespace + "/" + p.hcp.Name},
	}
	return p.Create(ctx, stored)
}

// forgetRollout deletes the state of the rollout.
func (p *pass) forgetRollout(ctx context.Context) error {
	stored := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: p.stateName()}}
	return client.IgnoreNotFound(p.Delete(ctx, stored))
}
