package install

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/sealift/sealift/installer/balancer"
	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/lifecycle"
	"github.com/sealift/sealift/installer/share"
	"github.com/sealift/sealift/spec"
)

// What kURL leaves in a cluster, and add-ons and KOTS look for (kURL §3.7).
const (
	kurlNamespace = "kurl"
	currentConfig = "kurl-current-config"
	lastConfig    = "kurl-last-config"
	kurlStep      = "kurl/state"
	appliedStep   = "kurl/applied"
	fieldManager  = "sealift"
	masterLabel   = "node-role.kubernetes.io/master"
	maxTextOfSpec = 1 << 20
)

var (
	namespaces  = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	configMaps  = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	secrets     = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	installers  = schema.GroupVersionResource{Group: "cluster.kurl.sh", Version: "v1beta1", Resource: "installers"}
)

// hasKurl says whether the install is one of kURL's, or has an add-on that may be.
func (i *Install) hasKurl() bool {
	for _, a := range i.addOns {
		if a.kurls {
			return true
		}
	}
	return i.spec.APIVersion == spec.KurlAPIVersion
}

// kurlState adds the step that leaves what kURL leaves when it has made the cluster.
func (p *planner) kurlState() {
	if p.hasKurl() {
		p.add(lifecycle.Step{ID: kurlStep, Phase: lifecycle.Install, Title: "leave in the cluster what add-ons of kURL look for", Timeout: shortTime,
			Inputs: p.everything(), Run: p.inCluster(p.inState(kurlState.begin))})
	}
}

// kurlApplied adds the step that notes there which add-ons were applied.
func (p *planner) kurlApplied() {
	if p.hasKurl() {
		p.add(lifecycle.Step{ID: appliedStep, Phase: lifecycle.Install, Title: "note in the cluster which add-ons it has", Timeout: shortTime,
			Inputs: p.everything(), Run: p.inCluster(p.inState(kurlState.finish))})
	}
}

// kurlState is what is left in the cluster.
type kurlState struct {
	client  dynamic.Interface
	nodes   clientset.Interface
	spec    *spec.Installer
	values  map[string]string // of the hooks' variables
	caHash  string
	support []byte // the specification of support bundles
	node    string
}

func (i *Install) inState(do func(kurlState, context.Context) error) func(context.Context) (lifecycle.State, error) {
	return func(ctx context.Context) (lifecycle.State, error) {
		config, err := cluster.Config(cluster.AdminKubeconfig)
		if err != nil {
			return nil, err
		}
		ca, err := share.ReadCA(filepath.Join(cluster.PKI, "ca.crt"))
		if err != nil {
			return nil, err
		}
		s, err := i.newKurlState(config, share.CAHash(ca))
		if err != nil {
			return nil, err
		}
		return nil, do(s, ctx)
	}
}

func (i *Install) newKurlState(config *rest.Config, caHash string) (kurlState, error) {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return kurlState{}, err
	}
	nodes, err := clientset.NewForConfig(config)
	if err != nil {
		return kurlState{}, err
	}
	s := kurlState{client: client, nodes: nodes, spec: i.spec, values: i.hooks.values(), caHash: caHash, node: i.facts.Hostname,
		support: []byte("apiVersion: troubleshoot.sh/v1beta2\nkind: SupportBundle\nmetadata:\n  name: kurl\nspec:\n  collectors:\n  - clusterInfo: {}\n  - clusterResources: {}\n")}
	if k, ok := kubernetes(i.addOns); ok {
		name := path.Join(k.info.Dir(), "troubleshoot.yaml")
		if _, there := i.archive.Entry(name); there {
			s.support, err = i.archive.ReadFile(name, maxTextOfSpec)
		}
	}
	return s, err
}

// begin leaves what is there before the hooks of add-ons run.
func (s kurlState) begin(ctx context.Context) error {
	if err := s.apply(ctx, namespaces, "v1", "Namespace", "", kurlNamespace, nil); err != nil {
		return err
	}
	if err := s.definition(ctx); err != nil {
		return err
	}
	if err := s.rotate(ctx); err != nil {
		return err
	}
	support := map[string]any{"metadata": map[string]any{"labels": map[string]any{"troubleshoot.io/kind": "support-bundle"}},
		"stringData": map[string]any{"support-bundle-spec": string(s.support)}}
	if err := s.apply(ctx, secrets, "v1", "Secret", kurlNamespace, "kurl-supportbundle-spec", support); err != nil {
		return err
	}
	if err := labelNode(ctx, s.nodes, s.node, map[string]string{masterLabel: ""}); err != nil {
		return err
	}
	return s.config(ctx)
}

// finish notes what the hooks made, and the add-ons with their options.
func (s kurlState) finish(ctx context.Context) error {
	data := map[string]any{"kurl-version": s.values["KURL_VERSION"]}
	for _, a := range s.spec.AddOns {
		options := map[string]any{"version": a.Version}
		for name, value := range a.Options {
			options[name] = value
		}
		text, err := json.Marshal(options)
		if err != nil {
			return err
		}
		data["addons-"+a.Name] = base64.StdEncoding.EncodeToString(text)
	}
	if err := s.configMap(ctx, kurlNamespace, currentConfig, data); err != nil {
		return err
	}
	return s.config(ctx)
}

// config leaves kurl-config. It gives away no token and no key of certificates: 'sealift token create' makes those, and who goes by
// the times finds that they are over.
func (s kurlState) config(ctx context.Context) error {
	endpoint := s.values["KUBERNETES_API_ENDPOINT"]
	if endpoint == balancer.Endpoint { // no other host reaches that
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
	return s.configMap(ctx, metav1.NamespaceSystem, "kurl-config", data)
}

// rotate keeps what an earlier install noted of its add-ons as the last one.
func (s kurlState) rotate(ctx context.Context) error {
	before := map[string]any{}
	current, err := s.client.Resource(configMaps).Namespace(kurlNamespace).Get(ctx, currentConfig, metav1.GetOptions{})
	if err == nil {
		before, _, err = unstructured.NestedMap(current.Object, "data")
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("read what the cluster has of an earlier install: %w", err)
	}
	if err := s.configMap(ctx, kurlNamespace, lastConfig, before); err != nil {
		return err
	}
	return s.configMap(ctx, kurlNamespace, currentConfig, map[string]any{"kurl-version": s.values["KURL_VERSION"]})
}

// definition leaves the kind Installer, and the Installer of this cluster as one.
func (s kurlState) definition(ctx context.Context) error {
	open := map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}
	err := s.apply(ctx, definitions, "apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "installers.cluster.kurl.sh", map[string]any{"spec": map[string]any{
		"group": installers.Group, "scope": "Namespaced",
		"names": map[string]any{"kind": spec.Kind, "listKind": spec.Kind + "List", "plural": "installers", "singular": "installer"},
		"versions": []any{map[string]any{"name": installers.Version, "served": true, "storage": true, "schema": map[string]any{"openAPIV3Schema": map[string]any{
			"type": "object", "properties": map[string]any{"spec": open, "status": open}}}}},
	}})
	if err != nil {
		return err
	}
	text, err := s.spec.Canonical()
	if err != nil {
		return err
	}
	var content map[string]any
	if err := yaml.Unmarshal(text, &content); err != nil {
		return err
	}
	name := s.spec.Name
	if name == "" {
		if name, err = s.spec.ID(); err != nil {
			return err
		}
	}
	object := map[string]any{"metadata": map[string]any{"labels": map[string]any{"velero.io/exclude-from-backup": "true"}}, "spec": content["spec"]}
	for {
		err := s.apply(ctx, installers, spec.KurlAPIVersion, spec.Kind, metav1.NamespaceDefault, name, object)
		if !apierrors.IsNotFound(err) {
			return err
		}
		select { // the kind is served a moment after its definition is there
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-time.After(time.Second / 2):
		}
	}
}

func (s kurlState) configMap(ctx context.Context, namespace, name string, data map[string]any) error {
	return s.apply(ctx, configMaps, "v1", "ConfigMap", namespace, name, map[string]any{"data": data})
}

// apply makes an object have these fields; those of an earlier apply that are no longer given go.
func (s kurlState) apply(ctx context.Context, resource schema.GroupVersionResource, apiVersion, kind, namespace, name string, fields map[string]any) error {
	object := map[string]any{"apiVersion": apiVersion, "kind": kind}
	for key, value := range fields {
		object[key] = value
	}
	metadata, _ := object["metadata"].(map[string]any)
	if metadata == nil {
		metadata = map[string]any{}
	}
	metadata["name"], object["metadata"] = name, metadata
	client := s.client.Resource(resource)
	options := metav1.ApplyOptions{FieldManager: fieldManager, Force: true}
	var err error
	if namespace == "" {
		_, err = client.Apply(ctx, name, &unstructured.Unstructured{Object: object}, options)
	} else {
		_, err = client.Namespace(namespace).Apply(ctx, name, &unstructured.Unstructured{Object: object}, options)
	}
	if err != nil {
		return fmt.Errorf("leave %s %s for add-ons of kURL: %w", kind, name, err)
	}
	return nil
}
