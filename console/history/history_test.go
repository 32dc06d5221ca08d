package history_test

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sealift/sealift/console/history"
	"github.com/sealift/sealift/internal/testing/fixture"
)

// record takes samples for a time, in a world whose clock the test owns.
func record(t *testing.T, r *history.Recorder, lasts time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), lasts)
	defer cancel()
	r.Run(ctx)
}

// TestHistoryKeepsOneHour records for more than an hour, and goes on after a restart.
func TestHistoryKeepsOneHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "history.json")
		var taken atomic.Int64
		measure := func(context.Context) history.Sample {
			return history.Sample{Time: time.Now(), Etcd: taken.Add(1), API: 123.456}
		}
		r := &history.Recorder{File: file, Measure: measure, Log: slog.New(slog.DiscardHandler)}
		record(t, r, 70*time.Minute)
		all := r.Samples()
		if n := int(history.Span / history.Every); len(all) < n || len(all) > n+1 || all[len(all)-1].Etcd != taken.Load() {
			t.Errorf("%d of %d samples are kept, the last one is %+v", len(all), taken.Load(), all[len(all)-1])
		}
		if info, err := os.Stat(file); err != nil || info.Size() > 16<<10 || info.Mode().Perm() != 0o600 {
			t.Errorf("the file is %v, %v", info, err)
		}
		again := &history.Recorder{File: file, Measure: measure, Log: slog.New(slog.DiscardHandler)}
		record(t, again, 10*time.Minute)
		if left := again.Samples(); len(left) != len(all) || !left[0].Time.After(all[0].Time) {
			t.Errorf("after a restart, %d samples are left, from %s on", len(left), left[0].Time)
		}
		time.Sleep(2 * time.Hour)
		record(t, again, time.Second)
		if left := again.Samples(); len(left) != 1 {
			t.Errorf("after two hours without the console, %d samples are left", len(left))
		}
	})
}

func TestDamagedFileIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "history.json")
		if err := os.WriteFile(file, []byte("["), 0o600); err != nil {
			t.Fatal(err)
		}
		r := &history.Recorder{File: file, Measure: func(context.Context) history.Sample { return history.Sample{Time: time.Now(), Etcd: 1} }, Log: slog.New(slog.DiscardHandler)}
		record(t, r, time.Second)
		if text, err := os.ReadFile(file); err != nil || len(text) < 10 || len(r.Samples()) != 1 {
			t.Errorf("the file has %s, %v", text, err)
		}
	})
}

// TestClockSetBackDropsSamples: those of the future would stay for as long as the clock was wrong.
func TestClockSetBackDropsSamples(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ahead := 24 * time.Hour
		r := &history.Recorder{File: filepath.Join(t.TempDir(), "history.json"), Log: slog.New(slog.DiscardHandler)}
		r.Measure = func(context.Context) history.Sample { return history.Sample{Time: time.Now().Add(ahead)} }
		record(t, r, 5*time.Minute)
		ahead = 0
		record(t, r, time.Second)
		if all := r.Samples(); len(all) != 1 {
			t.Errorf("%d samples are left: %+v", len(all), all)
		}
	})
}

func TestNodeIsMeasured(t *testing.T) {
	status := http.StatusOK
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/readyz" || r.TLS.ServerName != "kubernetes" || r.Header.Get("Authorization") != "" {
			t.Errorf("the console requests %s of %s", r.URL, r.TLS.ServerName)
		}
		w.WriteHeader(status)
	}))
	ca, key := fixture.ServerCertificate(t, "kubernetes")
	certificate, err := tls.X509KeyPair(ca, key)
	if err != nil {
		t.Fatal(err)
	}
	server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
	server.StartTLS()
	t.Cleanup(server.Close)
	dir := t.TempDir()
	n := history.Node{Database: filepath.Join(dir, "db"), CA: filepath.Join(dir, "ca.crt"), Server: server.URL}
	if err := os.WriteFile(n.CA, ca, 0o600); err != nil {
		t.Fatal(err)
	}
	if s := n.Measure(t.Context()); s.API <= 0 || s.Etcd != 0 || time.Since(s.Time) > time.Minute {
		t.Errorf("a node without etcd: %+v", s)
	}
	if err := os.WriteFile(n.Database, make([]byte, 12345), 0o600); err != nil {
		t.Fatal(err)
	}
	status = http.StatusUnauthorized
	if s := n.Measure(t.Context()); s.API <= 0 || s.Etcd != 12345 {
		t.Errorf("a server that refuses: %+v", s)
	}
	other, _ := fixture.ServerCertificate(t, "kubernetes")
	if err := os.WriteFile(n.CA, other, 0o600); err != nil {
		t.Fatal(err)
	}
	if s := n.Measure(t.Context()); s.API != 0 {
		t.Errorf("a server of another cluster: %+v", s)
	}
	server.Close()
	if s := n.Measure(t.Context()); s.API != 0 {
		t.Errorf("no server: %+v", s)
	}
}
