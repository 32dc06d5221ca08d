// Package console is the command line of sealift-console: it switches the console of a control plane on and off, makes login tokens, and
// ends sessions. It serves no pages itself.
package console

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/console/command"
	"github.com/sealift/sealift/console/oidc"
	"github.com/sealift/sealift/console/service"
	"github.com/sealift/sealift/installer/journal/node"
)

// commands makes and runs the commands of this package.
type commands struct{ *app.App }

// Root is the command line of sealift-console.
func Root(a *app.App) *cobra.Command {
	root := &cobra.Command{
		Use:   service.ProgramName,
		Short: "Serve the console of this control plane",
		Long: `The console is a service on a control plane with web pages: what is wrong and what to do about it, nodes, add-ons, snapshots,
certificates, operations, bundles and upgrades. It runs the node's sealift for everything that it shows and does, and works
while the cluster is down. It is off until you switch it on.

Every flag can also be set with an environment variable: SEALIFT_ROOT for --root.

Exit codes: 0 success, 1 failure, 2 wrong usage, 3 refused by preflight checks.`,
	}
	c := commands{a}
	app.AddGroups(root, app.Group{Commands: []*cobra.Command{c.onCommand(), c.offCommand(), c.tokenCommand(), c.sessionsCommand(), c.auditCommand(), c.uploadCommand(), c.serveCommand(), c.workCommand(), a.VersionCommand(service.ProgramName)}})
	return root
}

func addRoot(cmd *cobra.Command, home *service.Home) {
	cmd.Flags().StringVar(&home.Root, "root", node.DefaultRoot, "state folder of the node")
}

func addLogDir(cmd *cobra.Command, home *service.Home) {
	cmd.Flags().StringVar(&home.LogDir, "log-dir", node.DefaultLogDir, "folder of the audit")
}

// planFlags are the flags of a change that asks nobody.
type planFlags struct {
	plan   bool
	format string
}

func (f *planFlags) add(cmd *cobra.Command, shows string) {
	cmd.Flags().BoolVar(&f.plan, "plan", false, "show "+shows+", and change nothing")
	app.AddOutputFlag(cmd, &f.format)
}

// asRoot refuses other users: without root, not even the state of the node can be read.
func asRoot(work string) error {
	if os.Geteuid() == 0 {
		return nil
	}
	return fmt.Errorf("only root can %s; run the command with sudo", work)
}

func (a commands) onCommand() *cobra.Command {
	var home service.Home
	var s service.Settings
	var flags planFlags
	cmd := &cobra.Command{
		Use:   "on",
		Short: "Switch the console of this control plane on, or change its settings",
		Long: `Switch the console on, now and with every boot. The settings of an earlier 'on' stay where you give no flag.

The console has a certificate of the cluster's CA, or the one that you name; those files are read again when they change. It
answers only to the names and addresses of this host, and to those of --host.

The actions that save and verify snapshots need their keys here, and so do uploads of bundles: who uses the console cannot
choose them. The firewall of the host is not changed; open the port to the people who need it.

With --oidc-client-id, people also log in at an OpenID Connect issuer. The issuer, its CA, and the groups that get a role are
kubernetes.oidc of the cluster's Installer: admins are administrators, operators operators, viewers viewers. Tell the issuer the
redirect URI that this command prints. An empty --oidc-client-id switches these logins off, and ends their sessions.

With --fleet, the console also has pages about a fleet: its clusters, rollouts, and what waits to be carried. It runs the
sealift-controller that you name, with the kubeconfig of the hub, and changes nothing there. An empty --fleet removes these pages.`,
		Example: `  sealift-console on
  sealift-console on --listen 10.0.0.1:6446 --host console.example.com
  sealift-console on --certificate /etc/ssl/console.crt --private-key /etc/ssl/console.key
  sealift-console on --snapshot-key age1… --bundles /var/lib/bundles
  sealift-console on --bundle-key /root/release.pub
  sealift-console on --oidc-client-id sealift-console --oidc-url https://console.example.com:6446
  sealift-console on --fleet /usr/local/bin/sealift-controller`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := asRoot("switch the console on"); err != nil {
				return err
			}
			before, err := home.Read()
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			return a.on(cmd.Context(), home, merged(cmd, before, s), flags)
		},
	}
	addRoot(cmd, &home)
	f := cmd.Flags()
	f.StringVar(&s.Listen, "listen", "", "address and port to listen on (default: port "+service.Port+" of all addresses)")
	f.StringSliceVar(&s.Hosts, "host", nil, "another name or address by which browsers call the console; may be repeated")
	f.StringVar(&s.Certificate, "certificate", "", "file with the certificate and its chain, in PEM (default: one of the cluster's CA)")
	f.StringVar(&s.PrivateKey, "private-key", "", "file with the key of --certificate, in PEM")
	f.StringVar(&s.SnapshotKey, "snapshot-key", "", "public key of age, or a file with public keys, for snapshots that the console saves")
	f.StringVar(&s.SnapshotStore, "snapshot-store", "", "store of snapshots: a folder or s3://bucket/prefix (default "+service.DefaultSnapshotStore+")")
	f.StringVar(&s.SnapshotIdentity, "snapshot-identity", "", "file with the private key with which the console verifies snapshots")
	f.StringVar(&s.Bundles, "bundles", "", "folder with bundles whose upgrades the console plans")
	f.StringSliceVar(&s.BundleKeys, "bundle-key", nil, "file with a public key that bundles must be signed with; nothing can be uploaded without one; may be repeated")
	f.StringVar(&s.OIDC.ClientID, "oidc-client-id", "", "ID of the console at the issuer of kubernetes.oidc, at which people log in, too")
	f.StringVar(&s.OIDC.ClientSecret, "oidc-client-secret", "", "file with the secret of that client (default: a public client)")
	f.StringVar(&s.OIDC.Issuer, "oidc-issuer", "", "URL of the issuer, if kubernetes.oidc has several")
	f.StringVar(&s.OIDC.URL, "oidc-url", "", "address of the console to which the issuer sends people back (default: the first address of the console)")
	f.StringSliceVar(&s.OIDC.Scopes, "oidc-scope", nil, "another scope to request from the issuer, such as one for groups; may be repeated")
	f.StringVar(&s.Fleet.Program, "fleet", "", "file of sealift-controller, with which the console reads the hub of a fleet")
	f.StringVar(&s.Fleet.Kubeconfig, "fleet-kubeconfig", "", "kubeconfig of the hub (default: "+service.DefaultFleetKubeconfig+", for a hub in this cluster)")
	f.StringVar(&s.Fleet.Namespace, "fleet-namespace", "", "namespace of the hub's own objects (default: that of 'sealift fleet hub')")
	for _, name := range []string{"certificate", "private-key", "snapshot-identity", "bundle-key", "oidc-client-secret", "fleet", "fleet-kubeconfig"} {
		_ = cmd.MarkFlagFilename(name)
	}
	_ = cmd.MarkFlagDirname("bundles")
	app.MayBeEmpty(f, "certificate", "private-key", "snapshot-identity", "oidc-client-secret", "fleet", "fleet-kubeconfig")
	flags.add(cmd, "where it would serve")
	return cmd
}

// merged returns the earlier settings, with those that the command line names.
func merged(cmd *cobra.Command, before, given service.Settings) service.Settings {
	changed := cmd.Flags().Changed
	if changed("oidc-client-id") && given.OIDC.ClientID == "" {
		before.OIDC = oidc.Settings{}
	}
	if changed("fleet") && given.Fleet.Program == "" {
		before.Fleet = command.Fleet{}
	}
	for _, one := range []struct {
		flag     string
		from, to *string
	}{
		{"listen", &given.Listen, &before.Listen}, {"certificate", &given.Certificate, &before.Certificate}, {"private-key", &given.PrivateKey, &before.PrivateKey},
		{"snapshot-key", &given.SnapshotKey, &before.SnapshotKey}, {"snapshot-store", &given.SnapshotStore, &before.SnapshotStore},
		{"snapshot-identity", &given.SnapshotIdentity, &before.SnapshotIdentity}, {"bundles", &given.Bundles, &before.Bundles},
		{"oidc-client-id", &given.OIDC.ClientID, &before.OIDC.ClientID}, {"oidc-client-secret", &given.OIDC.ClientSecret, &before.OIDC.ClientSecret},
		{"oidc-issuer", &given.OIDC.Issuer, &before.OIDC.Issuer}, {"oidc-url", &given.OIDC.URL, &before.OIDC.URL},
		{"fleet", &given.Fleet.Program, &before.Fleet.Program}, {"fleet-kubeconfig", &given.Fleet.Kubeconfig, &before.Fleet.Kubeconfig}, {"fleet-namespace", &given.Fleet.Namespace, &before.Fleet.Namespace},
	} {
		if changed(one.flag) {
			*one.to = *one.from
		}
	}
	if changed("host") {
		before.Hosts = given.Hosts
	}
	if changed("bundle-key") {
		before.BundleKeys = given.BundleKeys
	}
	if changed("oidc-scope") {
		before.OIDC.Scopes = given.OIDC.Scopes
	}
	return before.Complete()
}

// switched is the output of 'on'.
type switched struct {
	URLs        []string         `json:"urls"`
	Fingerprint string           `json:"fingerprint"`           // SHA-256 of the certificate to recognize in a browser
	RedirectURI string           `json:"redirectURI,omitempty"` // of the console, for the issuer
	Settings    service.Settings `json:"settings"`
}

func (a commands) on(ctx context.Context, home service.Home, s service.Settings, flags planFlags) error {
	if err := s.Check(); err != nil {
		return app.UsageError("%v", err)
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	urls, err := s.Addresses()
	if err != nil {
		return err
	}
	fingerprint, err := s.Fingerprint()
	if err != nil {
		return err
	}
	redirect, err := redirectURI(s)
	if err != nil {
		return err
	}
	verb := "would serve"
	if !flags.plan {
		verb = "serves"
		if err := home.On(ctx, s, program, a.systemdOutput()); err != nil {
			return err
		}
	}
	return a.Print(flags.format, switched{urls, fingerprint, redirect, s}, func() error {
		fmt.Fprintf(a.Out, "the console %s %s\n", verb, strings.Join(urls, " "))
		fmt.Fprintf(a.Out, "its certificate is, or is signed by, the one with the SHA-256 fingerprint\n  %s\n", fingerprint)
		if redirect != "" {
			fmt.Fprintf(a.Out, "the issuer has to know the redirect URI\n  %s\n", redirect)
		}
		_, err := fmt.Fprintln(a.Out, "next: sealift-console token --role viewer")
		return err
	})
}

// redirectURI is what the issuer has to know of the console; "" without logins by an issuer. The cluster must have that issuer.
func redirectURI(s service.Settings) (string, error) {
	o, err := s.OpenID()
	if err != nil || o.ClientID == "" {
		return "", err
	}
	return o.RedirectURI(), o.CheckLogin(node.LoginFile)
}

func (a commands) offCommand() *cobra.Command {
	var home service.Home
	var flags planFlags
	cmd := &cobra.Command{
		Use:     "off",
		Short:   "Switch the console of this control plane off",
		Long:    "Stop the console, and remove its units of systemd, its settings, uploaded bundles, and all login tokens and sessions. Its audit stays in " + service.Home{}.AuditFile() + ".",
		Example: "  sealift-console off --plan\n  sealift-console off",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := asRoot("switch the console off"); err != nil {
				return err
			}
			if err := home.CheckOn(); err != nil {
				return err
			}
			text, do := "the console is off", func() error { return home.Off(cmd.Context(), a.systemdOutput()) }
			if flags.plan {
				text = "would stop the console, end all its sessions, and remove its units, settings, login tokens and uploaded bundles"
				do = func() error { return home.CheckOff(cmd.Context()) }
			}
			if err := do(); err != nil {
				return err
			}
			return a.Print(flags.format, map[string]bool{"on": flags.plan}, func() error {
				_, err := fmt.Fprintln(a.Out, text)
				return err
			})
		},
	}
	addRoot(cmd, &home)
	flags.add(cmd, "what would be removed")
	return cmd
}

// systemdOutput is where systemctl prints.
func (a commands) systemdOutput() io.Writer {
	if out := a.ProgramOutput(); out != nil {
		return out
	}
	return io.Discard
}
