package console

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/console/send"
	"github.com/sealift/sealift/console/upload"
)

// logoutTime is the timeout of the logout.
const logoutTime = 10 * time.Second

// uploadOptions are the flags of upload.
type uploadOptions struct{ console, token, format string }

func (a commands) uploadCommand() *cobra.Command {
	var o uploadOptions
	cmd := &cobra.Command{
		Use:   "upload BUNDLE",
		Short: "Send a bundle to the console of a control plane",
		Long: `Send a bundle to the console of a control plane, from any machine that reaches it. The console checks every digest and the
signature; the command ends when the bundle can be used, or with the reason why the console has refused it.

If the network or the console is away, the command waits up to an hour, and resumes. If the command was killed, run it again
with another token: an upload that is not complete can be resumed for a day, by a token for the same --name.

The token is one of 'sealift-console token --role operator' on the node. Give it in SEALIFT_TOKEN, so that no list of processes
shows it. Name the cluster's CA, /etc/kubernetes/pki/ca.crt of a control plane, with --ca-cert.`,
		Example: `  SEALIFT_TOKEN=$TOKEN sealift-console upload cluster.tar.gz --console https://node-1:6446 --ca-cert ca.crt
  sealift-console upload cluster.tar.gz --console https://console.example.com:6446 -o json | jq -r .verdict.digest`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return a.upload(cmd.Context(), args[0], o) },
	}
	f := cmd.Flags()
	f.StringVar(&o.console, "console", "", "URL of the console, such as https://node-1:6446")
	f.StringVar(&o.token, "token", "", "token for one login; better in SEALIFT_TOKEN")
	app.AddOutputFlag(cmd, &o.format)
	return cmd
}

func (a commands) upload(ctx context.Context, file string, o uploadOptions) (err error) {
	switch {
	case o.console == "":
		return app.UsageError("--console is missing: name the console, such as https://node-1:6446")
	case o.token == "":
		return app.UsageError("SEALIFT_TOKEN is missing: root on the node makes a token with 'sealift-console token --role operator'")
	}
	bundle, err := send.Open(file)
	if err != nil {
		return err
	}
	defer bundle.Close()
	client, err := send.Login(ctx, o.console, o.token, a.CAs.TLS())
	if errors.Is(err, send.ErrURL) {
		return app.UsageError("%v", err)
	}
	if err != nil {
		return err
	}
	defer func() {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), logoutTime)
		defer cancel()
		if failed := client.Logout(end); failed != nil {
			a.Log.Warn("the session was not ended; it ends by itself after 30 minutes", "error", failed)
		}
	}()
	tenth := int64(-1)
	progress := func(u upload.Upload) {
		if now := 10 * u.Offset / u.Length; now != tenth {
			tenth = now
			fmt.Fprintf(a.Err, "%s: %s of %s\n", u.Name, app.FormatBytes(u.Offset), app.FormatBytes(u.Length))
		}
		if u.State == upload.Checking {
			fmt.Fprintln(a.Err, "the console checks its digests and signature")
		}
	}
	done, err := client.Upload(ctx, bundle, progress, func(reason error) { fmt.Fprintf(a.Err, "waiting for the console: %v\n", reason) })
	if err != nil {
		return err
	}
	return a.Print(o.format, done, func() error {
		_, err := fmt.Fprintf(a.Out, "%s can be used: index sha256:%s, signed by %s\n", done.Name, done.Verdict.Digest, done.Verdict.Signer)
		return err
	})
}
