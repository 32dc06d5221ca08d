package service

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sealift/sealift/console/history"
	"github.com/sealift/sealift/console/page"
	"github.com/sealift/sealift/internal/connlimit"
	"github.com/sealift/sealift/internal/poll"
)

// The bounds of the listener. A browser has a few connections; some people may share an address.
const (
	maxPerClient  = 24
	maxPerNetwork = 64
	maxAll        = 128
	headerTime    = 10 * time.Second
	bodyTime      = 20 * time.Second
	idleTime      = time.Minute
	maxHeader     = 16 << 10
	drainTime     = 5 * time.Second
)

// database is the file of etcd's database on a control plane that has its own etcd.
const database = "/var/lib/etcd/member/snap/db"

// historyName is the file with what the overview draws.
const historyName = "history.json"

// Server serves the pages of a node.
type Server struct {
	Home     Home
	Settings Settings
	Program  string // the sealift that it runs
	PKI      string // folder with the cluster's CA; "" is kubeadm's
	Log      *slog.Logger
	// Self is the program that runs. When an upgrade replaces its file, and no action is running, Serve returns: systemd starts the new one.
	// "" never returns for that.
	Self string

	watch time.Duration // between looks at Self; 0 is a minute
}

// Run listens and serves until ctx ends. Actions that are in progress end with it.
func (s Server) Run(ctx context.Context) error {
	l, err := net.Listen("tcp", s.Settings.Complete().Listen)
	if err != nil {
		return fmt.Errorf("%w; choose another address: sealift-console on --listen ADDRESS:PORT", err)
	}
	return s.Serve(ctx, l)
}

// Serve serves the connections of l until ctx ends.
func (s Server) Serve(ctx context.Context, l net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	recorder := s.recorder()
	site, h, err := s.prepare(ctx, recorder)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	if err := s.watchSelf(ctx, site, cancel); err != nil {
		return errors.Join(err, l.Close())
	}
	var recording sync.WaitGroup
	defer recording.Wait() // it writes to the folder of the console
	defer cancel()
	recording.Go(func() { recorder.Run(ctx) })
	bounds := connlimit.New(connlimit.Options{PerClient: maxPerClient, PerNetwork: maxPerNetwork, All: maxAll, Log: s.Log})
	h.Handler = bounds.Handler(site.Handler())
	bounds.Configure(h)
	ended := make(chan error, 1)
	go func() { ended <- h.ServeTLS(bounds.Listener(l), "", "") }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTime)
		defer cancel()
		if err := h.Shutdown(drain); err != nil {
			return h.Close()
		}
		return nil
	}
}

// recorder measures what the overview draws.
func (s Server) recorder() *history.Recorder {
	n := history.Node{Database: database, CA: filepath.Join(cmp.Or(s.PKI, pki), "ca.crt"), Server: "https://localhost:6443"}
	return &history.Recorder{File: s.Home.file(historyName), Measure: n.Measure, Log: s.Log}
}

// prepare makes the pages, and the server without its handler.
func (s Server) prepare(ctx context.Context, recorder *history.Recorder) (*page.Site, *http.Server, error) {
	s.Settings = s.Settings.Complete()
	certificate, err := s.Settings.certificate(cmp.Or(s.PKI, pki), s.Settings.Names, s.Log)
	if err != nil {
		return nil, nil, err
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, nil, err
	}
	issuer, err := s.Settings.issuer()
	if err != nil {
		return nil, nil, err
	}
	site, err := page.New(ctx, page.Options{
		Program: s.Program, Settings: s.Settings.Settings, Tokens: s.Home.Tokens(), Sessions: s.Home.Sessions(), Issuer: issuer, History: recorder.Samples, Uploads: s.Home.uploads(), Background: s.Home.runner(s.Log), Audit: s.Home.Audit(), Refused: s.Home.refused(),
		Host: s.Settings.answersTo(s.Log), Node: host, Log: s.Log, Now: time.Now,
	})
	return site, &http.Server{
		ReadHeaderTimeout: headerTime, ReadTimeout: bodyTime, IdleTimeout: idleTime, MaxHeaderBytes: maxHeader,
		TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: certificate}, ErrorLog: slog.NewLogLogger(s.Log.Handler(), slog.LevelDebug),
	}, err
}

// watchSelf calls end when the file of Self was replaced and no action is running.
func (s Server) watchSelf(ctx context.Context, site *page.Site, end func()) error {
	if s.Self == "" {
		return nil
	}
	started, err := os.Stat(s.Self)
	if err != nil {
		return err
	}
	go poll.Repeat(ctx, func(context.Context) time.Duration {
		if now, err := os.Stat(s.Self); err == nil && !os.SameFile(started, now) && site.Idle() {
			s.Log.Warn("an upgrade has replaced this program; starting the new one", "program", s.Self)
			end()
		}
		return cmp.Or(s.watch, time.Minute)
	})
	return nil
}

// answersTo returns what reports whether browsers may call the host by a name. They are read each time, because the addresses of a host can
// change.
func (s Settings) answersTo(log *slog.Logger) func(string) bool {
	return func(name string) bool {
		names, err := s.Names()
		if err != nil {
			log.Error("the names of this host are unknown", "error", err)
		}
		name = strings.ToLower(strings.TrimSuffix(name, "."))
		if ip := net.ParseIP(name); ip != nil {
			name = ip.String()
		}
		return slices.Contains(names, name)
	}
}
