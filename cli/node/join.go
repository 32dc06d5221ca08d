package node

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/cli/change"
	"github.com/sealift/sealift/cli/installers"
	"github.com/sealift/sealift/installer/cluster/share"
	"github.com/sealift/sealift/installer/install"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/spec"
)

type joinOptions struct {
	change.Flags
	server   string
	from     string // a server to take files from; empty: the control plane
	caHash   string
	token    string
	key      string   // of the certificates
	trusted  []string // public keys; one of them must have signed the bundle
	verdict  string   // file
	primary  bool
	version  string
	endpoint string   // of the API, from the command line
	words    []string // that go over the cluster's Installer, for this host
	ignored  []string // words of kURL's without effect
	flags    []string // flags that stand for words
	root     string
	folder   string // kURL's install directory
	checks   install.PreflightOptions
}

func (a commands) joinCommand() *cobra.Command {
	var o joinOptions
	cmd := &cobra.Command{
		Use:   "join --server ADDRESS --ca-hash HASH [NAME=VALUE...]",
		Short: "Join this host to an existing cluster",
		Long: `Join this host to a cluster. The host downloads what it lacks from a control plane over TLS, and verifies the server
with the cluster's CA. It needs no bundle. With --from, it downloads files from the server whose Installer made the
cluster. 'sealift token create' on a control plane prints the complete command.

The token is read from stdin unless it is given. To join a control plane, the key of the certificates follows the
token. Other users can see flags; use SEALIFT_TOKEN and SEALIFT_CERTIFICATE_KEY to keep the secrets from them.

kURL's flags for joining have the same meaning here: kubernetes-master-address, kubeadm-token,
kubeadm-token-ca-hash, cert-key, kubernetes-version, control-plane, load-balancer-address, primary-host,
secondary-host, kurl-install-directory, airgap, yes, and the flags for one host, such as private-address, labels and
host-preflight-ignore. Write them as for kURL, or as flags.

Every finished step is recorded. If the join is interrupted, run the same command again to resume it.`,
		Example: `  echo "$TOKEN" | sealift join --server 10.0.0.1 --ca-hash sha256:0123…
  echo "$TOKEN" | sealift join --server 10.0.0.1 --ca-hash sha256:0123… --from https://sealift.example.com/abc1234
  echo "$TOKEN" | sealift join --server 10.0.0.1 --ca-hash sha256:0123… --key vendor.pub
  echo "$TOKEN" | sealift join --server 10.0.0.1 --ca-hash sha256:0123… --private-address 192.168.7.4
  sealift join kubernetes-master-address=10.0.0.1:6443 kubeadm-token=… kubeadm-token-ca-hash=sha256:… kubernetes-version=1.36.3`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, words []string) error {
			if err := o.take(append(o.flags, words...)); err != nil {
				return err
			}
			for _, word := range o.ignored {
				fmt.Fprintln(a.Err, installers.ForeignNote(word))
			}
			var err error
			if o.root, err = installers.Root(o.root, o.folder); err != nil {
				return err
			}
			o.words = append(o.words, a.TrustedWords()...)
			return a.join(cmd.Context(), o)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.server, "server", "", "control plane to download files from: an address, with a port if it is not the default")
	flags.StringVar(&o.from, "from", "", "download files from a server instead: the URL of the cluster's Installer")
	flags.StringVar(&o.caHash, "ca-hash", "", "hash of the cluster's CA, sha256: and hexadecimal digits")
	flags.StringVar(&o.token, "token", "", "join token; read from stdin if not given")
	flags.StringVar(&o.key, "certificate-key", "", "key of the cluster's certificates, for a control plane")
	flags.StringArrayVar(&o.trusted, "key", nil, "public key that the control plane's bundle must be signed with; may be repeated")
	addVerdict(cmd, &o.verdict)
	flags.BoolVar(&o.primary, "control-plane", false, "join as an additional control plane")
	addRoot(cmd, &o.root)
	addPreflightFlags(cmd, &o.checks)
	o.Add(cmd, plannedInstall)
	o.addWords(flags)
	return cmd
}

// maxSecrets bounds the input from stdin: a token of 23 characters and a key of 64.
const maxSecrets = 1 << 10

// readSecrets reads the token and the key, unless they were given.
func (o *joinOptions) readSecrets(in io.Reader) error {
	if o.token != "" {
		return nil
	}
	line, err := bufio.NewReader(io.LimitReader(in, maxSecrets)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read the token: %w", err)
	}
	words := strings.Fields(line)
	if len(words) == 0 || len(words) > 2 {
		return app.UsageError("stdin has no token; 'sealift token create' on a control plane prints the whole command")
	}
	o.token = words[0]
	if len(words) == 2 && o.key == "" {
		o.key = words[1]
	}
	return nil
}

func (a commands) join(ctx context.Context, o joinOptions) (err error) {
	if err := o.readSecrets(a.In); err != nil {
		return err
	}
	binary, err := os.Executable()
	if err != nil {
		return err
	}
	trusted, err := app.PublicKeys(o.trusted)
	if err != nil {
		return err
	}
	request := install.JoinRequest{Server: share.Address(o.server), Token: o.token, CAHash: o.caHash, ControlPlane: o.primary, CertificateKey: o.key,
		Kubernetes: o.version, Endpoint: o.endpoint, Adjust: o.adjust}
	if request.Client, err = share.NewClient(request.Server, o.token, o.caHash); err != nil {
		return app.UsageError("%v", err)
	}
	options := install.Options{Scope: node.Scope{Root: o.root, Output: a.ProgramOutput()}, Binary: binary, Trusted: trusted, Verdict: o.verdict, Yes: o.Yes,
		Resume: resumeCommand(hideSecrets(os.Args), os.Getenv(resumeVariable)), Outro: a.Err, ChooseAddress: a.addressQuestion(o.Yes || o.Plan)}
	if o.from != "" {
		options.Bundle, options.Online = o.from, true
		options.Open = func() (*bundle.Archive, error) { return a.openOnline(ctx, o.from) }
	}
	if options, err = request.Options(ctx, options); err != nil {
		return err
	}
	in, err := prepare(ctx, options, o.Plan)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	fmt.Fprintf(a.Err, "bundle %s: %s\n", options.Bundle, in.Trust())
	return a.carryOut(ctx, in, installOptions{bundleOptions: bundleOptions{Flags: o.Flags, source: bundleSource{from: o.from}}, checks: options.Join.Checks(o.checks)})
}

// adjust applies this host's own settings to the cluster's Installer.
func (o *joinOptions) adjust(shared *spec.Installer) (*spec.Installer, error) {
	own, _, err := shared.Override(o.words...)
	if err != nil {
		return nil, app.UsageError("%v", err)
	}
	return own, nil
}
