package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/sealift/sealift/internal/testing/docexamples"
)

// follow follows a page with this binary.
func follow(t *testing.T, page string, env ...string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	docexamples.Follow(t, page, self, env...)
}

func TestChannelsPageIsFollowed(t *testing.T) {
	follow(t, "../../docs/channels.md", "KUBECONFIG="+kubeconfigFor(t))
}

func TestReadmeIsFollowed(t *testing.T) { follow(t, "../../README.md", smallSealift(t)) }

func TestInstallerPageIsFollowed(t *testing.T) { follow(t, "../../docs/installer.md", smallSealift(t)) }

// smallSealift puts a small file in place of the sealift that a bundle carries.
func smallSealift(t *testing.T) string {
	t.Helper()
	small, err := filepath.Abs("docs_test.go")
	if err != nil {
		t.Fatal(err)
	}
	return "SEALIFT_SEALIFT=" + small
}

func TestKurlPageIsFollowed(t *testing.T) { follow(t, "../../docs/kurl.md") }

func TestJoinPageIsFollowed(t *testing.T) { follow(t, "../../docs/join.md") }

func TestMonitoringPageIsFollowed(t *testing.T) { follow(t, "../../docs/monitoring.md") }
