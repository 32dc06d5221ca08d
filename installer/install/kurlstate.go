package install

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/cluster/balancer"
	"github.com/sealift/sealift/installer/cluster/identity"
	"github.com/sealift/sealift/installer/cluster/kubeadm"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/kube"
	"github.com/sealift/sealift/spec"
)

// What kURL leaves in a cluster, and add-ons and KOTS look for (kURL §3.7).
const (
	kurlNamespace = "kurl"
	currentConfig = "kurl-current-config"
	lastConfig    = "kurl-last-config"
	kurlStep      = "kurl/state"
	appliedStep   = "kurl/applied"
	masterLabel   = "node-role.kubernetes.io/master"
	maxTextOfSpec = 1 << 20
)

// kurlSet is the engine's name for these objects.
var kurlSet = kube.Set{Name: "kurl-state", Namespace: kube.DefaultNamespace}

// kurlInstallers is the kind of kURL's Installers.
const kurlInstallers = "installers.cluster.kurl.sh"

// hasKurl reports whether the install is one of kURL's, or has an add-on that may be.
func (c *contents) hasKurl() bool {
	for _, a := range c.addOns {
		if a.fromKURL {
			return true
		}
	}
	return c.spec.APIVersion == spec.KurlAPIVersion
}

// kurlState adds the step that leaves what kURL leaves when it has made the cluster.
func (p *planner) kurlState() {
	if p.hasKurl() {
		p.add(lifecycle.Step{ID: kurlStep, Phase: lifecycle.Install, Title: "leave in the cluster what add-ons of kURL look for", Timeout: shortTime,
			Inputs: p.everything()}, inCluster(inState(kurlState.begin)))
	}
}

// kurlApplied adds the step that notes there which add-ons were applied.
func (p *planner) kurlApplied() {
	if p.hasKurl() {
		p.add(lifecycle.Step{ID: appliedStep, Phase: lifecycle.Install, Title: "note in the cluster which add-ons it has", Timeout: shortTime,
			Inputs: p.everything()}, inCluster(inState(kurlState.finish)))
	}
}

// kurlState is the state left in the cluster.
type kurlState struct {
	engine  *kube.Engine
	nodes   clientset.Interface
	spec    *spec.Installer
	values  map[string]string // of the hooks' variables
	caHash  string
	support []byte // the specification of support bundles
	node    string
}

func inState(do func(kurlState, context.Context) error) action {
	return func(i *Install, ctx context.Context) (lifecycle.State, error) {
		config, err := cluster.Config(kubeadm.AdminKubeconfig)
		if err != nil {
			return nil, err
		}
		ca, err := identity.ReadCA(filepath.Join(kubeadm.PKI, "ca.crt"))
		if err != nil {
			return nil, err
		}
		s, err := i.newKurlState(config, identity.CAHash(ca))
		if err != nil {
			return nil, err
		}
		return nil, do(s, ctx)
	}
}

func (i *Install) newKurlState(config *rest.Config, caHash string) (kurlState, error) {
	there, err := kube.Connect(config, nil)
	if err != nil {
		return kurlState{}, err
	}
	nodes, err := clientset.NewForConfig(config)
	if err != nil {
		return kurlState{}, err
	}
	s := kurlState{engine: kube.New(there, kube.Options{}), nodes: nodes, spec: i.spec, values: i.hooks.values(), caHash: caHash, node: i.facts.Hostname,
		support: []byte("apiVersion: troubleshoot.sh/v1beta2\nkind: SupportBundle\nmetadata:\n  name: kurl\nspec:\n  collectors:\n  - clusterInfo: {}\n  - clusterResources: {}\n")}
	if k, ok := kubernetes(i.addOns); ok {
		name := path.Join(k.info.Dir(), "troubleshoot.yaml")
		if _, there := i.archive.Entry(name); there {
			s.support, err = i.archive.ReadFile(name, maxTextOfSpec)
		}
	}
	return s, err
}

// begin writes the state that must exist before the hooks of add-ons run.
func (s kurlState) begin(ctx context.Context) error {
	last, err := s.current(ctx)
	if err != nil {
		return err
	}
	kinds, err := s.installer()
	if err != nil {
		return err
	}
	support := object("v1", "Secret", kurlNamespace, "kurl-supportbundle-spec", map[string]any{"data": map[string]any{"support-bundle-spec": base64.StdEncoding.EncodeToString(s.support)}})
	support.SetLabels(map[string]string{"troubleshoot.io/kind": "support-bundle"})
	kinds = append(kinds, object("v1", "Namespace", "", kurlNamespace, nil), support,
		configMap(kurlNamespace, lastConfig, last), configMap(kurlNamespace, currentConfig, map[string]any{"kurl-version": s.values["KURL_VERSION"]}), s.config())
	if err := s.apply(ctx, kinds...); err != nil {
		return err
	}
	return labelNode(ctx, s.nodes, s.node, map[string]string{masterLabel: ""})
}

// finish records the hooks' results, and the add-ons with their options.
func (s kurlState) finish(ctx context.Context) error {
	data := map[string]any{"kurl-version": s.values["KURL_VERSION"]}
	for _, a := range s.spec.AddOns {
		options := map[string]any{"version": a.Version}
		maps.Copy(options, a.Options)
		text, err := json.Marshal(options)
		if err != nil {
			return err
		}
		data["addons-"+a.Name] = base64.StdEncoding.EncodeToString(text)
	}
	return s.apply(ctx, configMap(kurlNamespace, currentConfig, data), s.config())
}

// config is kurl-config. It reveals no token and no key of certificates: 'sealift token create' creates those, and readers of
// the times see that they have expired.
func (s kurlState) config() *unstructured.Unstructured {
	endpoint := s.values["KUBERNETES_API_ENDPOINT"]
	if balancer.Serves(endpoint) { // no other host reaches that
		endpoint = netJoin(s.values["PRIVATE_ADDRESS"], 6443)
	}
	over := time.Unix(0, 0).UTC().Format(time.RFC3339)
	data := map[string]any{
		"ca_hash": s.caHash, "kubernetes_api_address": endpoint, "bootstrap_token": "", "bootstrap_token_expiration": over, "cert_key": "", "upload_certs_expiration": over,
	}
	for key, variable := range map[string]string{
		"kurl_url": "KURL_URL", "installer_id": "INSTALLER_ID", "ha": "HA_CLUSTER", "airgap": "AIRGAP", "docker_registry_ip": "DOCKER_REGISTRY_IP",
		"service_cidr": "SERVICE_CIDR", "pod_cidr": "POD_CIDR", "kurl_install_directory": "KURL_INSTALL_DIRECTORY",
		"additional_no_proxy_addresses": "ADDITIONAL_NO_PROXY_ADDRESSES", "kubernetes_cis_compliance": "KUBERNETES_CIS_COMPLIANCE",
	} {
		data[key] = s.values[variable]
	}
	return configMap(metav1.NamespaceSystem, "kurl-config", data)
}

// current is an earlier install's record of its add-ons.
func (s kurlState) current(ctx context.Context) (data map[string]any, err error) {
	noted, err := s.engine.Objects(ctx, kube.Ref{Version: "v1", Kind: "ConfigMap", Namespace: kurlNamespace, Name: currentConfig})
	var found *unstructured.Unstructured
	if err == nil {
		found, err = noted.Get(ctx, currentConfig, metav1.GetOptions{})
	}
	if err == nil {
		data, _, err = unstructured.NestedMap(found.Object, "data")
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("read the cluster's record of an earlier install: %w", err)
	}
	if data == nil {
		data = map[string]any{}
	}
	return data, nil
}

// installer returns the definition of kind Installer, and this cluster's Installer as an object.
func (s kurlState) installer() ([]*unstructured.Unstructured, error) {
	text, err := s.spec.Canonical()
	if err != nil {
		return nil, err
	}
	var content map[string]any
	if err := yaml.Unmarshal(text, &content); err != nil {
		return nil, err
	}
	name := s.spec.Name
	if name == "" {
		if name, err = s.spec.ID(); err != nil {
			return nil, err
		}
	}
	group, version, _ := strings.Cut(spec.KurlAPIVersion, "/")
	open := map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}
	definition := object("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", kurlInstallers, map[string]any{"spec": map[string]any{
		"group": group, "scope": "Namespaced",
		"names": map[string]any{"kind": spec.Kind, "listKind": spec.Kind + "List", "plural": "installers", "singular": "installer"},
		"versions": []any{map[string]any{"name": version, "served": true, "storage": true, "schema": map[string]any{"openAPIV3Schema": map[string]any{
			"type": "object", "properties": map[string]any{"spec": open, "status": open}}}}},
	}})
	one := object(spec.KurlAPIVersion, spec.Kind, metav1.NamespaceDefault, name, map[string]any{"spec": content["spec"]})
	one.SetLabels(map[string]string{"velero.io/exclude-from-backup": "true"})
	return []*unstructured.Unstructured{definition, one}, nil
}

// apply makes the cluster hold these objects. It takes them over from any earlier owner, and keeps the others of the set.
func (s kurlState) apply(ctx context.Context, objects ...*unstructured.Unstructured) error {
	_, err := s.engine.Apply(ctx, kurlSet, objects, kube.ApplyOptions{Force: true, NoPrune: true})
	if err != nil {
		return fmt.Errorf("create the objects that kURL add-ons look for: %w", err)
	}
	return nil
}

func configMap(namespace, name string, data map[string]any) *unstructured.Unstructured {
	return object("v1", "ConfigMap", namespace, name, map[string]any{"data": data})
}

func object(apiVersion, kind, namespace, name string, fields map[string]any) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{}}
	maps.Copy(o.Object, fields)
	o.SetAPIVersion(apiVersion)
	o.SetKind(kind)
	o.SetNamespace(namespace)
	o.SetName(name)
	return o
}
