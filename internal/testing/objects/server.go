// Package objects runs a real S3 server for tests, and a proxy in front of it that can inject faults.
package objects

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sealift/sealift/internal/testing/short"
	"github.com/sealift/sealift/testgrid/lab/daemon"
	"github.com/sealift/sealift/testgrid/lab/upstream"
)

// Bucket is the bucket that the server has.
const Bucket = "packages"

// The server's credentials. Start puts them into the environment for the AWS client and for child processes.
const (
	accessKey = "sealift"
	secretKey = "sealift-secret"
)

// Server is an S3 server with one bucket.
type Server struct {
	Endpoint string // http://127.0.0.1:port
	Dir      string // the files of the bucket

	daemon *daemon.Daemon
}

// Start runs a server until the test ends.
func Start(t testing.TB) *Server {
	t.Helper()
	short.Skip(t, "a server of objects")
	s, err := Run(t.Context(), t.TempDir(), func(line string) { t.Log(line) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	for _, setting := range s.Environment() {
		name, value, _ := strings.Cut(setting, "=")
		t.Setenv(name, value)
	}
	return s
}

// Run runs a server with its files in a folder until it is stopped.
func Run(ctx context.Context, home string, say func(line string)) (*Server, error) {
	workshop, err := upstream.NewWorkshop(upstream.Options{Progress: say})
	if err != nil {
		return nil, err
	}
	binary, err := workshop.File(ctx, upstream.Program("versitygw"))
	if err != nil {
		return nil, err
	}
	root := filepath.Join(home, "objects")
	if err := os.MkdirAll(filepath.Join(root, Bucket), 0o755); err != nil {
		return nil, err
	}
	address, err := daemon.FreeAddress()
	if err != nil {
		return nil, err
	}
	d, err := daemon.Start(daemon.Command{
		Path: binary, Log: filepath.Join(home, "log"),
		Args: []string{"--access", accessKey, "--secret", secretKey, "--port", address, "--health", "/health", "--keep-alive", "posix", root},
	})
	if err != nil {
		return nil, err
	}
	s := &Server{Endpoint: "http://" + address, Dir: filepath.Join(root, Bucket), daemon: d}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	if err := d.WaitReady(ctx, s.ready); err != nil {
		d.Stop()
		return nil, err
	}
	return s, nil
}

// Stop stops the server.
func (s *Server) Stop() { s.daemon.Stop() }

func (s *Server) ready(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.Endpoint+"/health", nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("the server answered %s", resp.Status)
	}
	return nil
}

// Environment gives the AWS client only the server's credentials, and none of the user's.
func (s *Server) Environment() []string {
	none := filepath.Join(s.Dir, "..", "none")
	return []string{
		"AWS_ACCESS_KEY_ID=" + accessKey, "AWS_SECRET_ACCESS_KEY=" + secretKey, "AWS_SESSION_TOKEN=", "AWS_PROFILE=", "AWS_REGION=",
		"AWS_CONFIG_FILE=" + none, "AWS_SHARED_CREDENTIALS_FILE=" + none, "AWS_EC2_METADATA_DISABLED=true", "NO_PROXY=127.0.0.1",
	}
}

// URL returns the bucket as a store URL, with further settings as name=value.
func (s *Server) URL(prefix string, settings ...string) string {
	return storeURL(s.Endpoint, prefix, settings)
}

func storeURL(endpoint, prefix string, settings []string) string {
	u := "s3://" + Bucket + "/" + prefix + "?endpoint=" + endpoint
	for _, setting := range settings {
		u += "&" + setting
	}
	return u
}
