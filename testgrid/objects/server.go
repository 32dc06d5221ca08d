// Package objects runs a real S3 server for tests, and a line to it that fails when it is told to.
package objects

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/sealift/sealift/testgrid/daemon"
	"github.com/sealift/sealift/testgrid/lab/upstream"
)

// Bucket is the bucket that the server has.
const Bucket = "packages"

// The credentials of the server. Start puts them into the environment, where the AWS client and child processes find them.
const (
	accessKey = "sealift"
	secretKey = "sealift-secret"
)

// Server is an S3 server with one bucket.
type Server struct {
	Endpoint string // http://127.0.0.1:port
	Dir      string // the files of the bucket
}

// Start runs a server until the test ends.
func Start(t testing.TB) *Server {
	t.Helper()
	workshop, err := upstream.NewWorkshop(upstream.Options{Progress: func(line string) { t.Log(line) }})
	if err != nil {
		t.Fatal(err)
	}
	binary, err := workshop.File(t.Context(), upstream.FileOf{Component: upstream.ObjectServer, Name: "versitygw"})
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	root := filepath.Join(home, "objects")
	if err := os.MkdirAll(filepath.Join(root, Bucket), 0o755); err != nil {
		t.Fatal(err)
	}
	address := freeAddress(t)
	d, err := daemon.Start(daemon.Command{
		Path: binary, Log: filepath.Join(home, "log"),
		Args: []string{"--access", accessKey, "--secret", secretKey, "--port", address, "--health", "/health", "--keep-alive", "posix", root},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Stop)
	s := &Server{Endpoint: "http://" + address, Dir: filepath.Join(root, Bucket)}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := d.WaitReady(ctx, s.ready); err != nil {
		t.Fatal(err)
	}
	setEnvironment(t)
	return s
}

func freeAddress(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

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

// setEnvironment lets the AWS client find the server's credentials, and nothing of the person who runs the test.
func setEnvironment(t testing.TB) {
	none := filepath.Join(t.TempDir(), "none")
	for name, value := range map[string]string{
		"AWS_ACCESS_KEY_ID": accessKey, "AWS_SECRET_ACCESS_KEY": secretKey, "AWS_SESSION_TOKEN": "", "AWS_PROFILE": "", "AWS_REGION": "",
		"AWS_CONFIG_FILE": none, "AWS_SHARED_CREDENTIALS_FILE": none, "AWS_EC2_METADATA_DISABLED": "true", "NO_PROXY": "127.0.0.1",
	} {
		t.Setenv(name, value)
	}
}

// URL is the bucket as a store, with further settings as name=value.
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
