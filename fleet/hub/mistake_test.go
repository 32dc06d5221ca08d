package hub_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/sealift/sealift/fleet/hub"
	"github.com/sealift/sealift/fleet/registration"
)

// mistake is an invalid action of a user or an agent, and the message that they get.
type mistake struct {
	name string
	// objects are applied. The expected message is in the error, or in the status of the object at.
	objects, at string
	// do is done with the credentials of the agent of cluster oslo. The answer is its error.
	do   func(agent dynamic.Interface) error
	want string
}

// addOnOf is an add-on with a template on cluster oslo.
func addOnOf(name, manifest, more, annotations, spec string) string {
	return fmt.Sprintf(`
apiVersion: addon.open-cluster-management.io/v1alpha1
kind: AddOnTemplate
metadata: {name: %[1]s}
spec: {addonName: %[1]s, agentSpec: {workload: {manifests: [%[2]s]}}%[3]s}
---
apiVersion: addon.open-cluster-management.io/v1alpha1
kind: ClusterManagementAddOn
metadata: {name: %[1]s, annotations: {%[4]s}}
spec:
  supportedConfigs:
  - {group: addon.open-cluster-management.io, resource: addontemplates, defaultConfig: {name: %[1]s}}
---
apiVersion: addon.open-cluster-management.io/v1alpha1
kind: ManagedClusterAddOn
metadata: {name: %[1]s, namespace: oslo, annotations: {%[4]s}}
spec: {%[5]s}
`, name, manifest, more, annotations, spec)
}

func configMap(name, more string) string {
	return fmt.Sprintf("{apiVersion: v1, kind: ConfigMap, metadata: {name: %s, namespace: default%s}}", name, more)
}

// addOnMistakes are in add-ons, templates and placements.
func addOnMistakes() (list []mistake) {
	add := func(name, manifest, more, annotations, spec, want string) {
		if manifest == "" {
			manifest = configMap(name, "")
		}
		list = append(list, mistake{name: name, objects: addOnOf(name, manifest, more, annotations, spec), at: "managedclusteraddons oslo " + name, want: want})
	}
	permission := func(p string) string {
		return ", registration: [{type: KubeClient, kubeClient: {hubPermissions: [" + p + "]}}]"
	}
	signer := func(name, ca string) string {
		return ", registration: [{type: CustomSigner, customSigner: {signerName: " + name + ", signingCA: {" + ca + "}}}]"
	}
	add("more-rights", "", permission("{type: CurrentCluster, currentCluster: {clusterRoleName: cluster-admin}}"), "", "", "the hub can grant only rights that it has itself")
	shared := func(namespace, kind, role string) string {
		return permission("{type: SingleNamespace, singleNamespace: {namespace: " + namespace + ", roleRef: {apiGroup: rbac.authorization.k8s.io, kind: " + kind + ", name: " + role + "}}}")
	}
	add("shares-a-cluster", "", shared("rome", "ClusterRole", "view"), "", "", "the namespace of a cluster")
	add("shares-the-hub", "", shared(hub.DefaultNamespace, "ClusterRole", "view"), "", "", "which has Secrets of the hub")
	add("reads-the-signing-key", "", shared(hub.DefaultNamespace, "Role", registration.HubAccount), "", "", "which has the rights of the hub itself")
	add("is-the-hub", "", permission("{type: CurrentCluster, currentCluster: {clusterRoleName: "+registration.HubAccount+"}}"), "", "", "which has the rights of the hub itself")
	add("signs-for-kubernetes", "", signer("kubernetes.io/kube-apiserver-client", "name: ca"), "", "", "belongs to Kubernetes")
	add("foreign-authority", "", signer("example.com/x", "name: ca, namespace: kube-system"), "", "", "the hub may not read Secrets of namespace kube-system")
	add("no-authority", "", signer("example.com/x", "name: missing"), "", "", "not found")
	add("unfinished", `{apiVersion: v1, kind: ConfigMap, metadata: {name: unfinished, namespace: default}, data: {a: "{{NAME"}}`, "", "", "", "{{ without }}")
	add("too-large", `{apiVersion: v1, kind: ConfigMap, metadata: {name: too-large, namespace: default}, data: {a: `+strings.Repeat("x", 600<<10)+`}}`, "", "", "", "the limit for a manifest is")
	add("nowhere", configMap("nowhere", ", annotations: {addon.open-cluster-management.io/hosted-manifest-location: moon}"), "", "", "", "not managed, hosting or none")
	add("no-host", "", "", "addon.open-cluster-management.io/hosting-cluster-name: moon", "", "hosting cluster moon is not a managed cluster")
	add("circle", "", "", `fleet.sealift.dev/requires: "circle"`, "", "requires itself")
	add("lonely", "", "", `fleet.sealift.dev/requires: "nobody"`, "", "requires nobody, which does not exist")
	add("second-owner", configMap("good", ""), "", "", "", "belongs to add-on good")
	add("unsupported", "", "", "", "configs: [{group: example.com, resource: things, name: x}]", "ConfigurationUnsupported")
	add("no-configuration", "", "", "", "configs: [{group: addon.open-cluster-management.io, resource: addontemplates, name: missing}]", "is there an AddOnTemplate")

	place := func(name, spec, want string) {
		list = append(list, mistake{name: name, objects: "apiVersion: cluster.open-cluster-management.io/v1beta1\nkind: Placement\nmetadata: {name: " + name + ", namespace: default}\nspec: {" + spec + "}", at: "placements default " + name, want: want})
	}
	place("broken-cel", `predicates: [{requiredClusterSelector: {celSelector: {celExpressions: ["managedCluster.metadata ==="]}}}]`, "CEL expression")
	place("no-such-score", `prioritizerPolicy: {configurations: [{scoreCoordinate: {type: BuiltIn, builtIn: Beauty}, weight: 1}]}`, "incorrect builtin prioritizer: Beauty")
	place("tolerates-nothing", `tolerations: [{operator: Equal, value: x}]`, "operator must be Exists")
	place("groups-of-many", `decisionStrategy: {groupStrategy: {clustersPerDecisionGroup: many}}`, "clustersPerDecisionGroup")

	roll := func(name, placement, strategy, want string) {
		list = append(list, mistake{name: name, at: "clustermanagementaddons - " + name, want: want, objects: "apiVersion: addon.open-cluster-management.io/v1alpha1\nkind: ClusterManagementAddOn\nmetadata: {name: " + name + "}\n" +
			"spec: {installStrategy: {type: Placements, placements: [{name: " + placement + ", namespace: default, rolloutStrategy: {" + strategy + "}}]}}"})
	}
	roll("no-placement", "missing", "type: All", "placement default/missing does not exist")
	roll("broken-placement", "broken-cel", "type: All", "placement default/broken-cel has a mistake")
	roll("rolls-sometimes", "missing", "type: Sometimes", "Unsupported value")
	roll("deadline-soon", "missing", "type: All, all: {progressDeadline: soon}", "progressDeadline")
	roll("some-failures", "missing", "type: All, all: {maxFailures: some}", "maxFailures")
	return list
}

// chartMistakes are in HelmChartProxies, and in the kubeconfigs of clusters.
func chartMistakes(own string) (list []mistake) {
	kubeconfig := func(user string) string {
		return "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{name: c, context: {cluster: c, user: u}}]\nclusters: [{name: c, cluster: {server: \"https://127.0.0.1:1\"}}]\nusers: [{name: u, user: {" + user + "}}]\n"
	}
	cluster := func(name, kubeconfig, spec string) string {
		text, _ := json.Marshal(kubeconfig)
		return fmt.Sprintf("apiVersion: v1\nkind: Secret\nmetadata: {name: %[1]s-kubeconfig, namespace: charts}\nstringData: {value: %[2]s}\n---\n"+
			"apiVersion: cluster.x-k8s.io/v1beta2\nkind: Cluster\nmetadata: {name: %[1]s, namespace: charts, labels: {is: %[1]s}}\nspec: {%[3]s}\n---\n", name, text, spec)
	}
	chart := func(name, annotations, spec string) string {
		return fmt.Sprintf("apiVersion: addons.cluster.x-k8s.io/v1alpha1\nkind: HelmChartProxy\nmetadata: {name: %[1]s, namespace: charts, annotations: {%[2]s}}\n"+
			"spec: {clusterSelector: {matchLabels: {is: %[1]s}}, chartName: web, repoURL: \"https://127.0.0.1:1\", releaseName: %[1]s, %[3]s}\n", name, annotations, spec)
	}
	for name, row := range map[string][2]string{
		"runs-a-program":  {kubeconfig("exec: {apiVersion: client.authentication.k8s.io/v1, command: /bin/sh, interactiveMode: Never}"), "it runs a program (exec)"},
		"has-a-provider":  {kubeconfig("auth-provider: {name: oidc}"), "it has an auth-provider"},
		"reads-a-token":   {kubeconfig("tokenFile: /var/run/secrets/kubernetes.io/serviceaccount/token"), "it names files"},
		"reads-a-key":     {kubeconfig("client-certificate: /a, client-key: /b"), "it names files"},
		"has-no-context":  {"{}", "it has no current context"},
		"is-no-config":    {"[", "its value is not a kubeconfig"},
		"does-not-answer": {kubeconfig("token: x"), "127.0.0.1:1"},
	} {
		list = append(list, mistake{name: name, objects: cluster(name, row[0], "") + chart(name, "", ""), at: "helmreleaseproxies charts " + name, want: row[1]})
	}
	for name, row := range map[string][3]string{
		"half-a-template":  {`valuesTemplate: "a: {{"`, "", "failed to parse values on cluster"},
		"endless-template": {`valuesTemplate: "{{ range until 100000000 }}x{{ end }}"`, "", "exceeds its limit of"},
		"wide-template":    {`valuesTemplate: '{{ printf "%999999d" 1 | repeat 999 }}'`, "", "exceeds its limit of"},
		"long-template":    {`valuesTemplate: '{{ repeat 999999999 "x" }}'`, "", "exceeds its limit of"},
		"reads-the-hub":    {`valuesTemplate: '{{ env "HOME" }}'`, "", "not defined"},
		"reads-a-secret":   {`valuesTemplate: '{{ .ControlPlane }}'`, "", "refers to a kind outside of"},
		"rolls-oddly":      {"", `fleet.sealift.dev/rollout: "{"`, "annotation fleet.sealift.dev/rollout"},
		"from-a-file":      {`repoURL: "file:///etc"`, "", "the scheme must be https or oci"},
		"in-the-clear":     {`repoURL: "http://example.com"`, "", "the scheme must be https or oci"},
		"from-nowhere":     {`repoURL: "https://"`, "", "repoURL"},
	} {
		text := chart(name, row[1], row[0])
		if strings.Contains(row[0], "repoURL") {
			text = strings.Replace(text, `repoURL: "https://127.0.0.1:1", `, "", 1)
		}
		list = append(list, mistake{
			name: name, objects: cluster(name, own, "controlPlaneRef: {apiVersion: v1, kind: Secret, name: x}") + text, at: "helmchartproxies charts " + name, want: row[2],
		})
	}
	name := "foreign-secret"
	list = append(list, mistake{name: name, objects: cluster(name, own, "") + chart(name, "", "credentials: {secret: {name: x, namespace: kube-system}, key: config.json}"), at: "helmreleaseproxies charts " + name, want: "is in another namespace"})
	name = "selects-oddly"
	text := strings.Replace(chart(name, "", ""), "matchLabels: {is: "+name+"}", "matchExpressions: [{key: a, operator: Near}]", 1)
	return append(list, mistake{name: name, objects: text, at: "helmchartproxies charts " + name, want: "ClusterSelectionFailed"})
}

// agentMistakes are done with the credentials of one cluster's agent.
func agentMistakes(round int) (list []mistake) {
	resource := func(text string) schema.GroupVersionResource {
		p := strings.Split(text, "/")
		return schema.GroupVersionResource{Group: p[0], Version: p[1], Resource: p[2]}
	}
	works, addOns, clusters := resource("work.open-cluster-management.io/v1/manifestworks"), resource("addon.open-cluster-management.io/v1alpha1/managedclusteraddons"), resource("cluster.open-cluster-management.io/v1/managedclusters")
	add := func(name, want string, do func(ctx context.Context, agent dynamic.Interface) error) {
		list = append(list, mistake{name: "agent " + name, want: want, do: func(agent dynamic.Interface) error { return do(context.Background(), agent) }})
	}
	lists := func(name string, r schema.GroupVersionResource, namespace string) {
		add(name, "forbidden", func(ctx context.Context, agent dynamic.Interface) error {
			_, err := agent.Resource(r).Namespace(namespace).List(ctx, metav1.ListOptions{})
			return err
		})
	}
	patches := func(name, want string, r schema.GroupVersionResource, namespace, object, patch string, sub ...string) {
		add(name, want, func(ctx context.Context, agent dynamic.Interface) error {
			var on dynamic.ResourceInterface = agent.Resource(r)
			if namespace != "" {
				on = agent.Resource(r).Namespace(namespace)
			}
			_, err := on.Patch(ctx, object, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, sub...)
			return err
		})
	}
	makes := func(name, want string, r schema.GroupVersionResource, namespace, object string) {
		add(name, want, func(ctx context.Context, agent dynamic.Interface) error {
			var o unstructured.Unstructured
			if err := json.Unmarshal([]byte(object), &o.Object); err != nil {
				return err
			}
			_, err := agent.Resource(r).Namespace(namespace).Create(ctx, &o, metav1.CreateOptions{})
			return err
		})
	}
	lists("reads works of another cluster", works, "rome")
	lists("reads works of all clusters", works, "")
	lists("reads add-ons of another cluster", addOns, "rome")
	lists("reads its Secrets", resource("/v1/secrets"), "oslo")
	lists("reads the hub's Secrets", resource("/v1/secrets"), hub.DefaultNamespace)
	lists("reads requests for certificates", resource("certificates.k8s.io/v1/certificatesigningrequests"), "")
	lists("reads configurations", resource("addon.open-cluster-management.io/v1alpha1/addondeploymentconfigs"), "")
	lists("reads templates", resource("addon.open-cluster-management.io/v1alpha1/addontemplates"), "")
	patches("takes its taints away", "forbidden", clusters, "", "oslo", `{"spec":{"taints":null}}`)
	patches("speaks for another cluster", "forbidden", clusters, "", "rome", `{"status":{"conditions":[]}}`, "status")
	patches("keeps another cluster alive", "forbidden", resource("coordination.k8s.io/v1/leases"), "rome", "managed-cluster-lease", `{"spec":{}}`)
	patches("writes a work", "who may not delete works", works, "oslo", "addon-good-deploy-0", `{"spec":{"workload":{"manifests":[{"apiVersion":"v1","kind":"Secret","metadata":{"name":"x","namespace":"kube-system"}}]}}}`)
	patches("signs a work", "who may not delete works", works, "oslo", "addon-good-deploy-0", `{"metadata":{"annotations":{"fleet.sealift.dev/signature":"x"}}}`)
	patches("gives a work to another add-on", "who may not delete works", works, "oslo", "addon-good-deploy-0", `{"metadata":{"labels":{"open-cluster-management.io/addon-name":"x"}}}`)
	patches("chooses its template", "who may not patch add-ons", addOns, "oslo", "good", `{"status":{"configReferences":[]}}`, "status")
	patches("chooses what is supported", "who may not patch add-ons", addOns, "oslo", "good", `{"status":{"supportedConfigs":[{"group":"","resource":"secrets"}]}}`, "status")
	patches("configures an add-on", "forbidden", addOns, "oslo", "good", `{"spec":{"configs":[]}}`)
	makes("makes a work", "forbidden", works, "oslo", `{"apiVersion":"work.open-cluster-management.io/v1","kind":"ManifestWork","metadata":{"name":"mine"}}`)
	makes("binds a role", "forbidden", resource("rbac.authorization.k8s.io/v1/rolebindings"), "oslo", `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"RoleBinding","metadata":{"name":"mine"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"admin"}}`)
	add("deletes a work", "forbidden", func(ctx context.Context, agent dynamic.Interface) error {
		return agent.Resource(works).Namespace("oslo").Delete(ctx, "addon-good-deploy-0", metav1.DeleteOptions{})
	})
	return append(list, requestMistakes(round)...)
}

// requestMistakes are requests for certificates of the agent of oslo that it must not get.
func requestMistakes(round int) (list []mistake) {
	user := "system:open-cluster-management:cluster:oslo:addon:registered:agent:registered-agent"
	groups := []string{"system:open-cluster-management:cluster:oslo:addon:registered", "system:open-cluster-management:addon:registered"}
	for name, row := range map[string]struct {
		cluster, want string
		change        func(*x509.CertificateRequest, *certificatesv1.CertificateSigningRequestSpec)
	}{
		"rome": {"rome", "which is not the agent of cluster rome", func(*x509.CertificateRequest, *certificatesv1.CertificateSigningRequestSpec) {}},
		"node": {"oslo", "its organizations are", func(r *x509.CertificateRequest, _ *certificatesv1.CertificateSigningRequestSpec) {
			r.Subject.Organization = slices.Concat(groups, []string{"system:nodes"})
		}},
		"somebody": {"oslo", "its common name is", func(r *x509.CertificateRequest, _ *certificatesv1.CertificateSigningRequestSpec) {
			r.Subject.CommonName = "admin"
		}},
		"server": {"oslo", "an agent gets client auth only", func(_ *x509.CertificateRequest, s *certificatesv1.CertificateSigningRequestSpec) {
			s.Usages = append(s.Usages, certificatesv1.UsageServerAuth)
			s.SignerName = "example.com/x"
		}},
		"address": {"oslo", "it has alternative names", func(r *x509.CertificateRequest, _ *certificatesv1.CertificateSigningRequestSpec) {
			r.IPAddresses = []net.IP{{10, 0, 0, 1}}
		}},
		"signer": {"oslo", "has no registration with signer", func(_ *x509.CertificateRequest, s *certificatesv1.CertificateSigningRequestSpec) {
			s.SignerName = "example.com/y"
		}},
	} {
		csr := fmt.Sprintf("request-%s-%d", name, round)
		list = append(list, mistake{name: "agent asks as " + name, at: "certificatesigningrequests - " + csr, want: row.want, do: func(agent dynamic.Interface) error {
			key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
			if err != nil {
				return err
			}
			request := &x509.CertificateRequest{Subject: pkix.Name{CommonName: user, Organization: groups}}
			spec := certificatesv1.CertificateSigningRequestSpec{SignerName: "kubernetes.io/kube-apiserver-client", Usages: []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth}}
			row.change(request, &spec)
			der, err := x509.CreateCertificateRequest(rand.Reader, request, key)
			if err != nil {
				return err
			}
			spec.Request = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
			text, err := json.Marshal(certificatesv1.CertificateSigningRequest{
				TypeMeta:   metav1.TypeMeta{APIVersion: "certificates.k8s.io/v1", Kind: "CertificateSigningRequest"},
				ObjectMeta: metav1.ObjectMeta{Name: csr, Labels: map[string]string{"open-cluster-management.io/cluster-name": row.cluster, "open-cluster-management.io/addon-name": "registered"}}, Spec: spec,
			})
			var o unstructured.Unstructured
			if err == nil {
				err = json.Unmarshal(text, &o.Object)
			}
			if err == nil {
				_, err = agent.Resource(certificatesv1.SchemeGroupVersion.WithResource("certificatesigningrequests")).Create(context.Background(), &o, metav1.CreateOptions{})
			}
			return err
		}})
	}
	return list
}
