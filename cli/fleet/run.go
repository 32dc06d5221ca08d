package fleet

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/sealift/sealift/bundle/signature"
	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/cli/kubeconfig"
	"github.com/sealift/sealift/fleet/agent"
	"github.com/sealift/sealift/fleet/control"
	"github.com/sealift/sealift/fleet/hub"
	"github.com/sealift/sealift/fleet/inventory"
	"github.com/sealift/sealift/fleet/join"
	"github.com/sealift/sealift/fleet/ledger"
	"github.com/sealift/sealift/fleet/proxy"
	"github.com/sealift/sealift/fleet/registration"
	"github.com/sealift/sealift/internal/atomicfile"
	"github.com/sealift/sealift/kube"
)

// log is the log of a program that runs all the time.
func (a commands) log() *slog.Logger {
	return slog.New(slog.NewTextHandler(a.Err, &slog.HandlerOptions{Level: slog.LevelInfo}))
}

func (a commands) hubCommand() *cobra.Command {
	var f hubFlags
	var o hub.Options
	var p proxy.Options
	var rights registration.Hub
	var printRights bool
	var from string
	var signers []string
	cmd := &cobra.Command{
		Use:   "hub",
		Short: "Run the hub of a fleet until SIGTERM",
		Long: `Run the hub of a fleet until SIGTERM. It installs the CustomResourceDefinitions, serves the webhook that converts
v1alpha1 and v1beta1, and rolls add-ons and Helm charts out. Of several hubs of a cluster one decides, and all share the
work on clusters. If one ends, the others take its part over.

In a Pod, the hub works in the cluster of the Pod, and --service names the Service of its webhooks. Elsewhere the API
server must reach the address of --listen. Without --tls-cert the hub has a certificate authority of its own.

With --store, the works of AddOnTemplates name the digests that their images have in the packages of the store. They mean one
content on all clusters, whatever becomes of a tag. An add-on with an image that no package carries is given to no cluster.
With --require-signed, each package must be signed with one of these keys.

With --print-rbac it prints a ServiceAccount with the rights that it needs, and ends. It reads Secrets in its own
namespace, and in those of --secret-namespace and --chart-namespace.`,
		Example: "  sealift fleet hub --listen 192.0.2.1:9443\n  sealift fleet hub --listen :9443 --service sealift-fleet --health :8081\n  sealift fleet hub --listen 192.0.2.1:9443 --store /srv/packages --require-signed vendor.pub",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if printRights {
				rights.Namespace, rights.SecretNamespaces = f.namespace, append(rights.SecretNamespaces, p.SecretNamespaces...)
				return a.printRights(rights)
			}
			if (o.Webhook.Cert == "") != (o.Webhook.Key == "") || (o.Webhook.Cert == "") != (o.Webhook.CA == "") {
				return app.UsageError("--tls-cert, --tls-key and --tls-ca belong together")
			}
			if o.Config, err = kubeconfig.InPodOr(f.file, f.context, ""); err != nil {
				return err
			}
			o.Namespace, o.Log = f.namespace, a.log()
			packages, err := a.packages(from, signers)
			if err != nil {
				return err
			}
			o.Controllers = []hub.Controller{control.New(control.Options{SecretNamespaces: p.SecretNamespaces, Store: packages}), proxy.New(p)}
			return hub.Run(cmd.Context(), o)
		},
	}
	f.add(cmd)
	cmd.Flags().StringVar(&o.Webhook.Listen, "listen", ":9443", "address of the webhooks")
	cmd.Flags().StringVar(&o.Webhook.Service, "service", "", "Service of the webhooks, in the hub's namespace")
	cmd.Flags().StringVar(&o.Webhook.Host, "host", "", "name by which the API server finds the hub (default: the address of --listen)")
	cmd.Flags().StringVar(&o.Webhook.Cert, "tls-cert", "", "certificate of the webhooks; it is read again when it changes")
	cmd.Flags().StringVar(&o.Webhook.Key, "tls-key", "", "key of the certificate")
	cmd.Flags().StringVar(&o.Webhook.CA, "tls-ca", "", "certificate authority of the certificate")
	cmd.Flags().StringVar(&o.Health, "health", "", "address of /healthz and /readyz (default: none)")
	cmd.Flags().StringVar(&o.Metrics, "metrics", "", "address of /metrics, by TLS (default: none)")
	cmd.Flags().DurationVar(&p.Resync, "helm-sync-period", 10*time.Minute, "how often HelmChartProxies look for newer charts, and at all releases")
	cmd.Flags().IntVar(&p.AtOnce, "helm-concurrency", 10, "how many releases are worked on at once")
	cmd.Flags().StringArrayVar(&p.Schemes, "chart-scheme", nil, "scheme that repoURL may have beside https and oci: http or file; repeat it")
	cmd.Flags().StringArrayVar(&p.SecretNamespaces, "secret-namespace", nil, "namespace whose Secrets every HelmChartProxy and AddOnTemplate may name; repeat it")
	cmd.Flags().StringVar(&from, "store", "", "store with the packages that carry the images of AddOnTemplates: a folder, S3, or an http(s) URL")
	app.AddSignersFlag(cmd, &signers)
	cmd.Flags().BoolVar(&printRights, "print-rbac", false, "print the rights that the hub needs as YAML, and end")
	cmd.Flags().StringArrayVar(&rights.SecretNamespaces, "chart-namespace", nil, "with --print-rbac: namespace of HelmChartProxies and of the kubeconfigs of their clusters; repeat it")
	cmd.Flags().StringArrayVar(&rights.Signers, "signer", nil, "with --print-rbac: signer of AddOnTemplates whose certificates the hub signs, such as example.com/signer; repeat it")
	return cmd
}

// printRights prints the rights of a hub, to be applied.
func (a commands) printRights(h registration.Hub) error {
	for _, o := range h.Objects() {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
		if err != nil {
			return err
		}
		unstructured.RemoveNestedField(content, "metadata", "creationTimestamp")
		delete(content, "status")
		if content["rules"] == nil { // of an aggregated role: an applier gets them from Kubernetes
			delete(content, "rules")
		}
		text, err := yaml.Marshal(content)
		if err != nil {
			return err
		}
		fmt.Fprintf(a.Out, "---\n%s", text)
	}
	return nil
}

// joinOptions are those of 'fleet join'.
type joinOptions struct {
	hub                           hubFlags
	cluster                       join.Cluster
	out                           string
	occasional, carried, unsigned bool
}

func (a commands) joinCommand() *cobra.Command {
	var o joinOptions
	cmd := &cobra.Command{
		Use:   "join CLUSTER --out FILE",
		Short: "Make a cluster a member of the fleet",
		Long: `Make a cluster a member of the fleet. The command runs on the hub: it makes the ManagedCluster, its namespace, and an
identity for its agent that has rights in this namespace only. It writes the kubeconfig for the agent. Carry that file to
the cluster, and run 'sealift fleet agent' with it there.

The file pins the hub's key: the agent takes only works that are signed with it.

Run it again for a new token, or if the hub has a new key. All else stays as it is.`,
		Example: "  sealift fleet join oslo --out oslo.kubeconfig --label region=north\n  sealift fleet join ship-7 --occasional --server https://hub.example.com:6443 --out ship-7.kubeconfig",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.out == "" {
				return app.UsageError("name the kubeconfig to write with --out FILE")
			}
			if o.carried && o.unsigned {
				return app.UsageError("a carried cluster takes nothing without a signature: leave --unsigned out")
			}
			o.cluster.Name = args[0]
			return a.join(cmd.Context(), o)
		},
	}
	o.hub.add(cmd)
	cmd.Flags().StringVar(&o.out, "out", "", "kubeconfig file to write for the agent")
	cmd.Flags().StringToStringVar(&o.cluster.Labels, "label", nil, "label of the cluster, as KEY=VALUE; repeat it")
	cmd.Flags().BoolVar(&o.occasional, "occasional", false, "the cluster is seldom in contact, and loses no add-on by being away")
	cmd.Flags().BoolVar(&o.carried, "carried", false, "the cluster has no connection: it is reached by 'sealift fleet pack', 'apply' and 'take'")
	cmd.Flags().StringVar(&o.cluster.Server, "server", "", "address of the hub's API server as the agent sees it (default: that of the kubeconfig)")
	cmd.Flags().BoolVar(&o.unsigned, "unsigned", false, "the hub signs no works: it is Open Cluster Management's own")
	cmd.Flags().DurationVar(&o.cluster.Validity, "validity", join.DefaultValidity, "how long the agent's token is valid")
	return cmd
}

// join makes a cluster a member of the fleet.
func (a commands) join(ctx context.Context, o joinOptions) error {
	c, next := o.cluster, "on it, run: sealift fleet agent --hub-kubeconfig "+o.out
	c.Annotations, c.HubNamespace = make(map[string]string), o.hub.namespace
	if o.occasional {
		c.Annotations[inventory.Occasional] = "true"
	}
	if o.carried {
		c.Annotations[inventory.Carried] = "true"
		next = fmt.Sprintf("pack its first parcel with: sealift fleet pack %s --out FOLDER", c.Name)
	}
	cfg, err := kubeconfig.Load(o.hub.file, o.hub.context)
	if err != nil {
		return err
	}
	cluster, err := kube.Connect(cfg, a.Log)
	if err != nil {
		return err
	}
	trust := "takes works without signatures: somebody between it and the hub can change them"
	if !o.unsigned {
		key, err := hubKey(ctx, cluster, o.hub.namespace)
		if err != nil {
			return err
		}
		c.HubKey, trust = &key, "takes only works that are signed with the hub's key "+key.Fingerprint()
	}
	text, err := join.Hub(ctx, cluster, c)
	if err != nil {
		return err
	}
	if err := atomicfile.WriteMode(o.out, 0o600, text); err != nil {
		return err
	}
	fmt.Fprintf(a.Out, "cluster %s joined; %s\n", c.Name, next)
	fmt.Fprintf(a.Out, "the agent %s\n", trust)
	return nil
}

// hubKey returns the public key of a hub.
func hubKey(ctx context.Context, hub *kube.Cluster, namespace string) (signature.PublicKey, error) {
	l, err := ledger.Open(hub, namespace)
	if err != nil {
		return signature.PublicKey{}, err
	}
	key, err := l.Key(ctx)
	if err != nil {
		return signature.PublicKey{}, err
	}
	return key.Public()
}

// member reads the kubeconfig of an agent.
func member(file string) (join.Member, error) {
	if file == "" {
		return join.Member{}, app.UsageError("name the kubeconfig that 'sealift fleet join' wrote with --hub-kubeconfig FILE")
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return join.Member{}, err
	}
	m, err := join.Read(text)
	if err != nil {
		return join.Member{}, fmt.Errorf("%s: %w", file, err)
	}
	return m, nil
}

func (a commands) agentCommand() *cobra.Command {
	var hubFile, local, context, from, folder string
	var signers []string
	var o agent.Options
	cmd := &cobra.Command{
		Use:   "agent --hub-kubeconfig FILE",
		Short: "Run the agent of a cluster until SIGTERM",
		Long: `Run the agent of a cluster until SIGTERM. It applies what the hub has for the cluster, reports, and renews the Lease
of the cluster. It opens all connections itself: the hub need not reach the cluster.

With --store, the images of a work are on all nodes before it is applied: the agent fetches the packages of the store that
carry them. Run it on a control plane of a cluster that Sealift installed, as root. With --require-signed, each package must
be signed with one of these keys. A download that is cut off resumes.

In a Pod, the agent works in the cluster of the Pod.`,
		Example: "  sealift fleet agent --hub-kubeconfig oslo.kubeconfig\n  sealift fleet agent --hub-kubeconfig oslo.kubeconfig --store https://hub.example.com --require-signed vendor.pub",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			m, err := member(hubFile)
			if err != nil {
				return err
			}
			o.Keys, o.Unsigned, o.Cluster = m.HubKeys, m.Unsigned, m.Cluster
			if o.Hub, err = kubeconfig.Load(hubFile, ""); err != nil {
				return err
			}
			if o.Local, err = kubeconfig.InPodOr(local, context, ""); err != nil {
				return err
			}
			o.Log = a.log()
			if o.Content, err = a.content(from, folder, signers, o.Local); err != nil {
				return err
			}
			return agent.Run(cmd.Context(), o)
		},
	}
	cmd.Flags().StringVar(&hubFile, "hub-kubeconfig", "", "kubeconfig file that 'sealift fleet join' wrote")
	cmd.Flags().StringVar(&local, "kubeconfig", "", "kubeconfig file of the agent's cluster (default: that of the Pod or of kubectl)")
	cmd.Flags().StringVar(&context, "context", "", "context of the kubeconfig")
	cmd.Flags().DurationVar(&o.Look, "look", 10*time.Second, "how often to look at objects that are reported")
	cmd.Flags().DurationVar(&o.Repair, "repair", 5*time.Minute, "how often to look for drift")
	cmd.Flags().DurationVar(&o.MaxAge, "max-age", agent.DefaultMaxAge, "how old the signature of a work may be that is new to the cluster")
	cmd.Flags().StringArrayVar(&o.FormerHubs, "former-hub", nil, "address of the hub for an agent of Open Cluster Management that ran here, if it was another one; repeat it")
	cmd.Flags().StringVar(&from, "store", "", "store with the packages that carry the images of works")
	app.AddSignersFlag(cmd, &signers)
	cmd.Flags().StringVar(&folder, "content", defaultContent+"/online", "folder that keeps the images of the works")
	_ = cmd.MarkFlagFilename("hub-kubeconfig")
	_ = cmd.MarkFlagFilename("kubeconfig")
	return cmd
}
