package node

import (
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/cluster/access"
	"github.com/sealift/sealift/installer/cluster/controlplane"
	"github.com/sealift/sealift/installer/cluster/kubeadm"
	"github.com/sealift/sealift/installer/cluster/pki"
	"github.com/sealift/sealift/internal/atomicfile"
)

// issuedKind is the kind of a kubeconfig that a person has. It is in no file of this node.
const issuedKind pki.Kind = "issued kubeconfig"

type kubeconfigOptions struct {
	name   string
	groups []string
	valid  string
	out    string
	oidc   bool
	issuer string
	format string
}

func (a commands) kubeconfigCommand() *cobra.Command {
	var o kubeconfigOptions
	cmd := &cobra.Command{
		Use:   "kubeconfig {--for NAME | --oidc} --out FILE",
		Short: "Give a person a kubeconfig that ends, or everybody one to log in with",
		Long: `Make a kubeconfig with a client certificate for a name and groups. Run the command as root on a control plane. The key is
made here, and the cluster signs the certificate; the file is the only copy of the key.

The kubeconfig gives no rights by itself: bind a Role or ClusterRole to the name or to one of the groups. Names that begin
with system: are refused.

Kubernetes cannot revoke a client certificate. To take the rights away, delete the bindings of the name and of its groups. What is bound
to nobody can still call what every authenticated user may. Only 'sealift certs rotate-ca' ends certificates early, and then
those of everybody. So keep --valid short. 'sealift certs' lists what was issued, and when it ends.

With --oidc, write the kubeconfig for everybody who logs in at an issuer of the Installer's kubernetes.oidc. It has no secret. kubectl
runs its plugin 'oidc-login' (https://github.com/int128/kubelogin), which each person needs on their own machine; it opens a browser.`,
		Example: `  sealift kubeconfig --for jane --group developers --valid 30d --out jane.kubeconfig
  kubectl --kubeconfig /etc/kubernetes/admin.conf create clusterrolebinding developers --clusterrole view --group developers
  sealift kubeconfig --for ci --valid 12h --out ci.kubeconfig -o json
  sealift kubeconfig --oidc --out login.kubeconfig`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.kubeconfig(cmd.Context(), o) },
	}
	flags := cmd.Flags()
	flags.StringVar(&o.name, "for", "", "name of the person")
	flags.StringArrayVar(&o.groups, "group", nil, "group of the person; may be repeated")
	flags.StringVar(&o.valid, "valid", "30d", "how long it is valid, such as 30d or 12h; from 10m to 366d")
	flags.StringVar(&o.out, "out", "", "the kubeconfig to write, for its owner alone to read")
	flags.BoolVar(&o.oidc, "oidc", false, "write a kubeconfig that logs people in at an issuer")
	flags.StringVar(&o.issuer, "issuer", "", "URL of the issuer for --oidc, if the cluster has several")
	cmd.MarkFlagsMutuallyExclusive("for", "oidc")
	app.AddOutputFlag(cmd, &o.format)
	_ = cmd.MarkFlagFilename("out")
	return cmd
}

// validity parses a duration that may be in days.
func validity(text string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.ParseUint(days, 10, 16); err == nil {
			return time.Duration(n) * 24 * time.Hour, nil
		}
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, app.UsageError("--valid %q is not a time such as 30d or 12h", text)
	}
	return d, nil
}

func (a commands) kubeconfig(ctx context.Context, o kubeconfigOptions) error {
	if o.name == "" && !o.oidc || o.out == "" {
		return app.UsageError("--for or --oidc, and --out are needed; see 'sealift kubeconfig --help'")
	}
	if o.oidc {
		return a.loginKubeconfig(ctx, o)
	}
	valid, err := validity(o.valid)
	if err != nil {
		return err
	}
	request := access.Request{Name: o.name, Groups: o.groups, Valid: valid}
	if err := request.Check(); err != nil {
		return app.WithCode(app.ExitUsage, err)
	}
	if _, err := os.Lstat(o.out); err == nil {
		return app.UsageError("%s exists and is not replaced: it may be the only copy of a key", o.out)
	}
	admin, err := controlplane.AsAdministrator()
	if err != nil {
		return err
	}
	to, err := apiOf(ctx, admin)
	if err != nil {
		return err
	}
	text, issued, err := access.Issue(ctx, admin.Client, to, request)
	if err != nil {
		return err
	}
	if err := atomicfile.WriteMode(o.out, 0o600, text); err != nil {
		return err
	}
	return a.Print(o.format, issued, func() error {
		if issued.End.Sub(issued.Begin) < valid-time.Hour {
			fmt.Fprintf(a.Err, "warning: the cluster signs for no longer than %s; the kubeconfig ends before --valid\n", issued.End.Sub(issued.Begin).Round(time.Minute))
		}
		fmt.Fprintf(a.Out, "wrote %s for %s, valid until %s\n", o.out, o.name, issued.End.UTC().Format(time.RFC3339))
		return nil
	})
}

// apiOf returns how people reach the API: at the endpoint of all nodes, with the CAs that this control plane trusts now.
func apiOf(ctx context.Context, admin controlplane.Administrator) (access.Cluster, error) {
	config, err := cluster.Config(kubeadm.AdminKubeconfig)
	if err != nil {
		return access.Cluster{}, err
	}
	of, err := kubeadm.ReadConfig(ctx, admin.Client)
	if err != nil {
		return access.Cluster{}, err
	}
	endpoint := of.ControlPlaneEndpoint
	if endpoint == "" {
		endpoint = net.JoinHostPort(admin.Address, "6443")
	}
	return access.Cluster{Name: of.ClusterName, Server: "https://" + endpoint, CA: config.CAData}, nil
}

// listing is how long the API gets to list kubeconfigs: certs must also work while it is down.
const listing = 5 * time.Second

// issuedKubeconfigs lists the kubeconfigs of people, on a control plane whose API answers.
func (a commands) issuedKubeconfigs(ctx context.Context, now time.Time) []pki.Entry {
	admin, err := controlplane.AsAdministrator()
	if err != nil {
		return nil // not a control plane
	}
	ctx, stop := context.WithTimeout(ctx, listing)
	defer stop()
	all, problems, err := access.List(ctx, admin.Client)
	if err != nil {
		problems = append(problems, "the API does not list kubeconfigs of people: "+err.Error())
	}
	for _, problem := range problems {
		fmt.Fprintf(a.Err, "warning: %s\n", problem)
	}
	return issuedEntries(all, now)
}

func issuedEntries(all []access.Issued, now time.Time) []pki.Entry {
	var entries []pki.Entry
	for _, one := range all {
		days := int(one.End.Sub(now).Hours() / 24)
		subject := "CN=" + one.Name
		for _, group := range one.Groups {
			subject += ",O=" + group
		}
		entries = append(entries, pki.Entry{File: "serial " + one.Serial, Kind: issuedKind, Subject: subject, Issuer: one.Issuer, End: &one.End, Days: &days, UsedBy: []string{one.Name}})
	}
	return entries
}
