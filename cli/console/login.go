package console

import (
	"cmp"
	"fmt"
	"os"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/console/access"
	"github.com/sealift/sealift/console/audit"
	"github.com/sealift/sealift/console/service"
	"github.com/sealift/sealift/internal/hostpath"
	"github.com/sealift/sealift/internal/plaintext"
)

func (a commands) tokenCommand() *cobra.Command {
	var home service.Home
	var role, name, format string
	cmd := &cobra.Command{
		Use:   "token",
		Short: "Make a token for one login to the console",
		Long: `Make a login token. It is good for one login, and for ten minutes. A viewer reads pages; an operator also saves, verifies
and tries snapshots, uploads bundles, plans upgrades and pauses one; an administrator also starts, resumes and undoes an upgrade, invites
workers, deletes bundles, reads the audit and ends sessions.

The name is for the audit. Only a hash of the token is kept.`,
		Example: "  sealift-console token --role viewer\n  sealift-console token --role operator --name jane\n  sealift-console token --role administrator -o json | jq -r .token",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if err := asRoot("make a token"); err != nil {
				return err
			}
			if err := home.CheckOn(); err != nil {
				return err
			}
			parsed, err := access.ParseRole(role)
			if err != nil {
				return app.UsageError("--role: %v", err)
			}
			if err := access.CheckName(name); name != "" && err != nil {
				return app.UsageError("--name: %v", err)
			}
			text, made, err := home.Tokens().Create(cmp.Or(name, os.Getenv("SUDO_USER"), "root"), parsed)
			if err != nil {
				return err
			}
			document := map[string]any{"token": text, "role": made.Role, "name": made.Name, "ends": made.Ends.UTC()}
			return a.Print(format, document, func() error {
				fmt.Fprintln(a.Out, text)
				_, err := fmt.Fprintf(a.Err, "for one login as %s, %s, until %s\n", made.Name, made.Role, made.Ends.Format(time.TimeOnly))
				return err
			})
		},
	}
	addRoot(cmd, &home)
	cmd.Flags().StringVar(&role, "role", string(access.Viewer), "viewer, operator or administrator")
	cmd.Flags().StringVar(&name, "name", "", "name of the person, for the audit (default: who runs sudo)")
	app.AddOutputFlag(cmd, &format)
	return cmd
}

func (a commands) sessionsCommand() *cobra.Command {
	var home service.Home
	var format string
	cmd := &cobra.Command{
		Use:     "sessions",
		Short:   "List the sessions of the console",
		Long:    "List the sessions of the console, newest first. A session ends after 30 minutes without a request, and after 12 hours.",
		Example: "  sealift-console sessions\n  sealift-console sessions -o json | jq -r '.[].name'",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if err := asRoot("list sessions"); err != nil {
				return err
			}
			if err := home.CheckOn(); err != nil {
				return err
			}
			all, err := home.Sessions().List()
			if err != nil {
				return err
			}
			return a.printSessions(format, all)
		},
	}
	addRoot(cmd, &home)
	app.AddOutputFlag(cmd, &format)
	cmd.AddCommand(a.revokeCommand())
	return cmd
}

func (a commands) printSessions(format string, all []access.Session) error {
	return a.Print(format, append([]access.Session{}, all...), func() error {
		t := plaintext.NewTable(tabwriter.NewWriter(a.Out, 2, 0, 2, ' ', 0))
		t.Println("ID\tNAME\tROLE\tFROM\tBEGAN\tSEEN")
		for _, s := range all {
			t.Printf("%s\t%s\t%s\t%s\t%s\t%s\n", s.ID, s.Who(), s.Role, s.From, s.Began.Format(time.RFC3339), s.Seen.Format(time.RFC3339))
		}
		return t.Flush()
	})
}

func (a commands) revokeCommand() *cobra.Command {
	var home service.Home
	var all bool
	var format string
	cmd := &cobra.Command{
		Use:     "revoke [ID...]",
		Short:   "End sessions of the console now",
		Long:    "End sessions of the console. The next request of such a session is sent to the login page.",
		Example: "  sealift-console sessions revoke 0123456789abcdef\n  sealift-console sessions revoke --all",
		RunE: func(_ *cobra.Command, ids []string) error {
			if err := asRoot("end sessions"); err != nil {
				return err
			}
			if all == (len(ids) > 0) {
				return app.UsageError("name the sessions to end, or all of them with --all; 'sealift-console sessions' lists them")
			}
			wanted := map[string]bool{}
			for _, id := range ids {
				wanted[id] = true
			}
			ended, err := home.Sessions().Revoke(func(s access.Session) bool { return all || wanted[s.ID] })
			if err != nil {
				return err
			}
			for _, s := range ended {
				delete(wanted, s.ID)
				e := audit.Entry{Time: time.Now(), Who: cmp.Or(os.Getenv("SUDO_USER"), "root"), From: "this node", What: "end session", Result: "done", Detail: s.Who() + " " + s.ID}
				if err := home.Audit().Write(e); err != nil {
					return err
				}
			}
			for id := range wanted {
				return fmt.Errorf("there is no session %s; 'sealift-console sessions' lists them", id)
			}
			return a.printSessions(format, ended)
		},
	}
	addRoot(cmd, &home)
	addLogDir(cmd, &home)
	cmd.Flags().BoolVar(&all, "all", false, "end all sessions")
	app.AddOutputFlag(cmd, &format)
	return cmd
}

// auditLines is how many lines 'audit' prints by default.
const auditLines = 50

func (a commands) auditCommand() *cobra.Command {
	var home service.Home
	var lines int
	var format string
	cmd := &cobra.Command{
		Use:     "audit",
		Short:   "Show who did what in the console",
		Long:    "Show the last lines of the console's audit, newest first: logins, actions and what was refused. The file is " + service.Home{}.AuditFile() + ", JSON by line.",
		Example: "  sealift-console audit\n  sealift-console audit --lines 500 -o json | jq '.[] | select(.result == \"refused\")'",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if err := asRoot("read the audit"); err != nil {
				return err
			}
			all, err := home.Audit().Last(lines)
			if err != nil {
				return err
			}
			return a.Print(format, append([]audit.Entry{}, all...), func() error {
				t := plaintext.NewTable(tabwriter.NewWriter(a.Out, 2, 0, 2, ' ', 0))
				t.Println("TIME\tWHO\tROLE\tFROM\tWHAT\tRESULT\tDETAIL")
				for _, e := range all {
					t.Printf("%s\t%s\t%s\t%s\t%s\t%s\t%s\n", e.Time.Format(time.RFC3339), e.Who, e.Role, e.From, e.What, e.Result, e.Detail)
				}
				return t.Flush()
			})
		},
	}
	addLogDir(cmd, &home)
	cmd.Flags().IntVar(&lines, "lines", auditLines, "how many lines to show")
	app.AddOutputFlag(cmd, &format)
	return cmd
}

func (a commands) serveCommand() *cobra.Command {
	var home service.Home
	var program string
	cmd := &cobra.Command{
		Use:     "serve",
		Short:   "Serve the console; its unit of systemd runs this",
		Long:    "Serve the pages with the settings of 'sealift-console on', until a signal ends it. The unit of systemd runs this command.",
		Example: "  sealift-console serve",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := home.CheckOn(); err != nil {
				return err
			}
			s, err := home.Read()
			if err != nil {
				return err
			}
			self, err := os.Executable()
			if err != nil {
				return err
			}
			return service.Server{Home: home, Settings: s, Program: program, Log: a.Log, Self: self}.Run(cmd.Context())
		},
	}
	addRoot(cmd, &home)
	cmd.Flags().StringVar(&program, "sealift", hostpath.Binary, "the sealift of this node")
	_ = cmd.MarkFlagFilename("sealift")
	return cmd
}

func (a commands) workCommand() *cobra.Command {
	var home service.Home
	var program string
	cmd := &cobra.Command{
		Use:     "work",
		Short:   "Run the upgrade or undo that was started in the console; a unit of systemd runs this",
		Long:    "Run the change of the cluster that somebody has started in the console, to its end. The console starts a unit of systemd that\nruns this command, so that the change goes on while the console restarts.",
		Example: "  sealift-console work",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := home.CheckOn(); err != nil {
				return err
			}
			return home.Work(cmd.Context(), program)
		},
	}
	addRoot(cmd, &home)
	addLogDir(cmd, &home)
	cmd.Flags().StringVar(&program, "sealift", hostpath.Binary, "the sealift of this node")
	_ = cmd.MarkFlagFilename("sealift")
	return cmd
}
