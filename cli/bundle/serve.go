package bundle

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sealift/sealift/bundle/delta"
	"github.com/sealift/sealift/bundle/lean"
	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/internal/transfer"
	"github.com/sealift/sealift/server"
	"github.com/sealift/sealift/store"
)

type serveOptions struct {
	store, listen string
	programs      programFlags
	url           string
	tokenFile     string
	key           string
	signers       []string
	cert, certKey string
	overrides     []string
	closed        bool
	redirect      bool
	behindProxy   bool
	rate          float64
	connections   int
	ofClient      int
	perClient     int
	installers    int
	expire        time.Duration
	metrics       string
	drain, grace  time.Duration
	cache         string
	patch         bool
}

// serveTokenVariable holds the token if there is no file for it. It is not a flag: everyone can read command lines.
const serveTokenVariable = "SEALIFT_TOKEN"

func (a commands) serveCommand() *cobra.Command {
	var o serveOptions
	cmd := &cobra.Command{
		Use:   "serve --store URL --listen ADDRESS",
		Short: "Serve Installers, scripts and bundles over HTTP",
		Long: `Serve a store over HTTP: Installers that clients send to /installer, a script for each Installer with which a host
installs itself, and its bundle, which is assembled while it is sent. The server keeps no state. Any number of
servers can use one store and serve the same bytes.

An Installer gets an id that is computed from it. To name an Installer, a request needs the token, which is read from
--token-file or the environment variable ` + serveTokenVariable + `.

With --patch, a client that asks with ?since= and ?patch gets what changed as patches, as 'sealift bundle --patch' makes
them. With ?lean and ?patch, it gets similar programs as one and patches, as 'sealift bundle --lean' makes them. Making a
patch takes up to half a minute of a processor and 420 MB of memory. The server makes one at a time, and keeps it in --cache.`,
		Example: `  sealift serve --store /srv/packages --listen :8080
  sealift serve --store 's3://packages/stable?region=eu-central-1' --listen :443 --tls-cert tls.crt --tls-key tls.key \
      --url https://sealift.example.com --token-file token
  sealift serve --store /srv/packages --listen :8080 --platform linux/amd64,linux/arm64 --sealift amd64/sealift-node,arm64/sealift-node
  curl -fsS --data-binary @installer.yaml http://127.0.0.1:8080/installer
  curl -fsSL http://127.0.0.1:8080/abc1234 | sudo bash
  curl -fLO -C - http://127.0.0.1:8080/bundle/abc1234.tar.gz
  curl -fLO --retry 100 -C - 'http://127.0.0.1:8080/bundle/abc1234.tar.gz?lean&patch'
  curl -fLO --retry 100 -C - 'http://127.0.0.1:8080/bundle/abc1234.tar.gz?patch&since=SHA256'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.serve(cmd.Context(), o) },
	}
	flags := cmd.Flags()
	flags.StringVar(&o.store, "store", "", "store of the packages and Installers: a folder, s3://bucket/prefix, oci://registry/repository, or https://host/path")
	flags.StringVar(&o.listen, "listen", "", "address to listen on, such as :8080 or 127.0.0.1:8080")
	o.programs.add(cmd)
	flags.StringVar(&o.url, "url", "", "URL by which clients reach the server, such as https://sealift.example.com (default: from each request)")
	flags.StringVar(&o.tokenFile, "token-file", "", "file with the token that a request needs to name an Installer")
	flags.StringVar(&o.key, "key", "", "private key that signs the indexes of bundles")
	app.AddSignersFlag(cmd, &o.signers)
	flags.StringVar(&o.cert, "tls-cert", "", "certificate chain, PEM")
	flags.StringVar(&o.certKey, "tls-key", "", "private key of the certificate, PEM")
	flags.StringArrayVar(&o.overrides, "allow-override", nil, "URL prefix that an Installer's s3Override may name; may be repeated")
	flags.BoolVar(&o.closed, "closed", false, "require the token for every Installer, also unnamed ones")
	flags.BoolVar(&o.redirect, "redirect", false, "redirect downloads of single packages to the bucket, with a URL that is valid for an hour")
	flags.BoolVar(&o.behindProxy, "behind-proxy", false, "take the last address of X-Forwarded-For as the client's")
	flags.Float64Var(&o.rate, "rate", 50, "requests per second of a client; four times as many for a short time. A range of a bundle counts a tenth, and each 8 KiB of a request body counts one")
	flags.IntVar(&o.connections, "max-connections", 320, "connections that all clients may hold, each with a request; a connection takes up to 112 KiB of memory")
	flags.IntVar(&o.ofClient, "max-connections-per-client", 128, "connections that one client may hold; behind a proxy: requests in progress")
	flags.IntVar(&o.perClient, "max-per-client", 100, "unnamed Installers that a client may store per day without the token")
	flags.IntVar(&o.installers, "max-installers", 10_000, "unnamed Installers in the store from which on a new one needs the token")
	flags.DurationVar(&o.expire, "expire", 90*24*time.Hour, "remove unnamed Installers that were not used for this time; 0 keeps them")
	flags.StringVar(&o.metrics, "metrics-listen", "", "address for /metrics, /healthz and /readyz with connections of their own, such as 127.0.0.1:9090 (default: off)")
	flags.DurationVar(&o.drain, "drain", 0, "how long the stopping server still accepts connections, so that a load balancer notices /readyz")
	flags.DurationVar(&o.grace, "grace", 30*time.Second, "how long transfers may continue after that")
	flags.BoolVar(&o.patch, "patch", false, "make patches for clients that ask for them with ?patch")
	addCacheFlag(flags, &o.cache)
	for _, name := range []string{"token-file", "key", "tls-cert", "tls-key"} {
		_ = cmd.MarkFlagFilename(name)
	}
	return cmd
}

// serveMemory is the memory from which the server frees some, unless GOMEMLIMIT is set. The program itself is not included.
const serveMemory = 80 << 20

// serveGC is how much the heap may grow between collections, in percent, unless GOGC is set. Transfers leave little behind.
const serveGC = 50

// minExpire is the shortest time after which unused Installers may be removed.
const minExpire = 72 * time.Hour

func (o serveOptions) check() error {
	switch {
	case o.store == "":
		return app.UsageError("--store is missing; see 'sealift serve --help'")
	case o.listen == "":
		return app.UsageError("--listen is missing; see 'sealift serve --help'")
	case (o.cert == "") != (o.certKey == ""):
		return app.UsageError("--tls-cert and --tls-key go together")
	case o.rate <= 0:
		return app.UsageError("--rate must be more than 0")
	case o.connections <= 0 || o.ofClient <= 0:
		return app.UsageError("--max-connections and --max-connections-per-client must be more than 0")
	case o.perClient <= 0 || o.installers <= 0:
		return app.UsageError("--max-per-client and --max-installers must be more than 0; to take Installers only with the token, use --closed")
	case o.expire < 0 || o.expire > 0 && o.expire < minExpire:
		return app.UsageError("--expire must be 0 or at least %s: that an Installer is used is noted once a day", minExpire)
	}
	return nil
}

// boundMemory sets the limits of the garbage collector, where the environment does not.
func boundMemory() {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(serveMemory)
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(serveGC)
	}
}

func (a commands) serve(ctx context.Context, o serveOptions) (err error) {
	if err := errors.Join(o.check(), o.programs.check()); err != nil {
		return err
	}
	boundMemory()
	log := slog.New(slog.NewTextHandler(a.Err, &slog.HandlerOptions{Level: slog.LevelInfo}))
	if a.Log.Enabled(ctx, slog.LevelDebug) {
		log = a.Log
	}
	token, err := readToken(o.tokenFile)
	if err != nil {
		return err
	}
	key, err := a.SigningKey(o.key)
	if err != nil {
		return err
	}
	opener := store.Opener{Log: log, CAs: a.CAs}
	inner, err := opener.Open(o.store)
	if err != nil {
		return err
	}
	cache, err := cacheFolder(o.cache)
	if err != nil {
		return err
	}
	programs, err := a.nodePrograms(ctx, deflated(cache), o.programs)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, programs.close()) }()
	for _, one := range programs {
		if one.Preflight != nil { // now, so that no request waits for its compression
			if _, err := one.Preflight.Member(ctx); err != nil {
				return err
			}
		}
	}
	// A transfer may continue for a while after the server was asked to stop. It reads the store until then.
	reads, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	packages := packagesOf(inner, cache)
	packages.Overrides, packages.Opener = o.overrides, opener
	if packages.Signers, err = app.PublicKeys(o.signers); err != nil {
		return err
	}
	var patches *delta.Spool
	if o.patch {
		patches = delta.NewSpool(deflated(cache))
	}
	s, err := server.New(reads, server.Options{
		Packages: packages, Programs: programs, KeepPreflight: len(o.programs.preflight) > 0, Commands: a.nodes,
		Lean: lean.NewSpool(deflated(cache)), Patches: patches, URL: o.url, Token: token, Closed: o.closed, Redirect: o.redirect, Key: key, Rate: o.rate, BehindProxy: o.behindProxy,
		MaxConnections: o.connections, MaxConnectionsPerClient: o.ofClient, MaxPerClient: o.perClient, MaxInstallers: o.installers, Expire: o.expire,
		Drain: o.drain, Grace: o.grace, Log: log,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", o.listen)
	if err != nil {
		return fmt.Errorf("%w; choose another address with --listen", err)
	}
	stop, err := a.serveMetrics(ctx, s, o.metrics)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	defer func() { err = errors.Join(err, stop()) }()
	fmt.Fprintf(a.Out, "serving %s on %s; end with Ctrl-C\n", transfer.Shown(o.store), l.Addr())
	return s.Serve(ctx, l, o.cert, o.certKey)
}

// serveMetrics serves the server's metrics at a separate address, if there is one. Call stop to end that.
func (a commands) serveMetrics(ctx context.Context, s *server.Server, address string) (stop func() error, err error) {
	if address == "" {
		return func() error { return nil }, nil
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%w; choose another address with --metrics-listen", err)
	}
	fmt.Fprintf(a.Out, "metrics on http://%s/metrics\n", l.Addr())
	return s.ServeMetrics(l), nil
}

// readToken reads the token from its file or the environment; there may be none.
func readToken(file string) (string, error) {
	where, token := serveTokenVariable, os.Getenv(serveTokenVariable)
	if file == "" && token == "" {
		return "", nil
	}
	if file != "" {
		data, err := os.ReadFile(file)
		if err != nil {
			return "", fmt.Errorf("read the token: %w", err)
		}
		where, token = file, strings.TrimSpace(string(data))
	}
	if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) { // no header has it
		return "", fmt.Errorf("the token in %s has blanks, several lines, or characters other than ASCII; make one with: openssl rand -hex 32", where)
	}
	if len(token) < 16 {
		return "", fmt.Errorf("the token in %s has less than 16 characters; make one with: openssl rand -hex 32", where)
	}
	return token, nil
}
