package mirror_test

import (
	"strings"
	"testing"

	"github.com/sealift/sealift/builder/mirror"
)

func newSet(t *testing.T, rules map[string]string) mirror.Set {
	t.Helper()
	set, err := mirror.New(rules)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func TestURL(t *testing.T) {
	set := newSet(t, map[string]string{
		"https://dl.k8s.io/":                  "http://127.0.0.1:5080/dl.k8s.io/",
		"https://dl.k8s.io/v1.36.3/":          "https://special.example/k8s",
		"https://github.com":                  "http://127.0.0.1:5080/github.com/",
		"http://ftp.debian.org/debian":        "http://mirror.example/debian",
		"http://ftp.debian.org/debian-extra/": "http://mirror.example/extra/",
	})
	tests := map[string]struct{ upstream, want string }{
		"a prefix is replaced":                     {"https://dl.k8s.io/v1.35.4/bin/kubeadm", "http://127.0.0.1:5080/dl.k8s.io/v1.35.4/bin/kubeadm"},
		"the longest prefix wins":                  {"https://dl.k8s.io/v1.36.3/bin/kubeadm", "https://special.example/k8s/bin/kubeadm"},
		"a prefix without slash ends at one":       {"https://github.com/a/b", "http://127.0.0.1:5080/github.com/a/b"},
		"a prefix never ends inside a host name":   {"https://github.com.evil/a", "https://github.com.evil/a"},
		"a prefix never ends inside a path":        {"http://ftp.debian.org/debian-security/x", "http://ftp.debian.org/debian-security/x"},
		"a prefix alone is replaced too":           {"http://ftp.debian.org/debian", "http://mirror.example/debian"},
		"a slash at the end stays":                 {"http://ftp.debian.org/debian-extra/", "http://mirror.example/extra/"},
		"a slash at the end is not needed twice":   {"https://dl.k8s.io/v1.36.3/", "https://special.example/k8s/"},
		"percent-escapes stay as they are written": {"https://github.com/k/releases/kustomize%2Fv5.4.3/k.tgz", "http://127.0.0.1:5080/github.com/k/releases/kustomize%2Fv5.4.3/k.tgz"},
		"http and https are different":             {"http://dl.k8s.io/x", "http://dl.k8s.io/x"},
		"what no rule names stays":                 {"https://example.com/x", "https://example.com/x"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := set.URL(test.upstream); got != test.want {
				t.Errorf("URL(%q) = %q, want %q", test.upstream, got, test.want)
			}
		})
	}
}

func TestRepositoryIsMirrored(t *testing.T) {
	set := newSet(t, map[string]string{
		"registry.k8s.io":         "127.0.0.1:5000/registry.k8s.io",
		"registry.k8s.io/coredns": "https-free.example/dns",
		"docker.io/library":       "http://hub.example:8080/library",
	})
	tests := map[string]struct {
		upstream, want string
		plain          bool
	}{
		"a registry is replaced":             {"registry.k8s.io/pause", "127.0.0.1:5000/registry.k8s.io/pause", false},
		"the longest prefix wins":            {"registry.k8s.io/coredns/coredns", "https-free.example/dns/coredns", false},
		"a prefix ends at a slash":           {"registry.k8s.io/coredns-extra", "127.0.0.1:5000/registry.k8s.io/coredns-extra", false},
		"http:// asks for plain HTTP":        {"docker.io/library/busybox", "hub.example:8080/library/busybox", true},
		"a registry is not part of another":  {"registry.k8s.io.evil/pause", "registry.k8s.io.evil/pause", false},
		"what no rule names stays":           {"docker.io/rancher/local-path", "docker.io/rancher/local-path", false},
		"a whole repository may be replaced": {"registry.k8s.io/coredns", "https-free.example/dns", false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, plain := set.Repository(test.upstream)
			if got != test.want || plain != test.plain {
				t.Errorf("Repository(%q) = %q, %v, want %q, %v", test.upstream, got, plain, test.want, test.plain)
			}
		})
	}
}

func TestNewRefuses(t *testing.T) {
	tests := map[string]struct{ from, to, want string }{
		"a URL replaced by a registry":        {"https://dl.k8s.io/", "127.0.0.1:5080", "needs a URL"},
		"a URL without a host":                {"https:///x", "http://a/", "not a URL with a host"},
		"a URL with a query":                  {"https://a/?x=1", "http://a/", "no query"},
		"a registry replaced by an https URL": {"quay.io", "https://a.example", "without https://"},
		"a registry with a digest":            {"quay.io/a@b", "a.example", "without a user, a password or a digest"},
		"a mirror with a password":            {"quay.io", "user:secret@a.example", "without a user, a password or a digest"},
		"an empty replacement":                {"quay.io", "", "not of the form"},
		"a trailing slash":                    {"quay.io/", "a.example", "not of the form"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := mirror.New(map[string]string{test.from: test.to})
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("New(%q: %q) = %v, want an error with %q", test.from, test.to, err, test.want)
			}
		})
	}
	t.Run("all faults at once, in a fixed order", func(t *testing.T) {
		_, err := mirror.New(map[string]string{"b/": "x", "a/": "x"})
		if err == nil || strings.Count(err.Error(), "mirror ") != 2 || !strings.HasPrefix(err.Error(), `mirror "a/"`) {
			t.Errorf("got %v", err)
		}
	})
}
