package testgrid

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/sealift/sealift/testgrid/report"
)

// headerTimeout is how long a browser may take to send a request.
const headerTimeout = 10 * time.Second

func (a commands) serveCommand() *cobra.Command {
	var listen string
	cmd := &cobra.Command{
		Use:   "serve REPORT",
		Short: "Show a report in a browser while its tests run",
		Long: `Show a report in a browser while its tests run, until interrupted. The pages are those of the report. They also have the
tests that run or wait, and change by themselves. REPORT is the folder that 'sealift testgrid run --out' writes, on the same
machine; it may be begun later.`,
		Example: "  sealift testgrid serve report\n  sealift testgrid serve report --listen :8080",
		Args:    cobra.ExactArgs(1),
		RunE:    func(cmd *cobra.Command, args []string) error { return a.serve(cmd.Context(), args[0], listen) },
	}
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:8080", "address; port 0 takes a free one")
	return cmd
}

func (a commands) serve(ctx context.Context, folder, address string) (err error) {
	pages, err := report.NewServer(report.Folder{Path: folder})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, pages.Close()) }()
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("serve the report: %w; choose another address with --listen", err)
	}
	go pages.Watch(ctx)
	server := &http.Server{Handler: pages, ReadHeaderTimeout: headerTimeout}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	fmt.Fprintf(a.Err, "the report is at http://%s/; end with Ctrl-C\n", listener.Addr())
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
