package airgap_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/sealift/sealift/internal/testing/lab"
	"github.com/sealift/sealift/testgrid/lab/upstream"
)

// ubuntu is the target of hosts that call themselves Ubuntu 24.04. Their packages are Debian's, except containerd.
const ubuntu = "ubuntu-24.04"

// osRelease makes a lab host call itself Ubuntu 24.04.
const osRelease = `rm /etc/os-release; cat >/etc/os-release <<'EOF'
PRETTY_NAME="Ubuntu 24.04.3 LTS"
NAME="Ubuntu"
VERSION_ID="24.04"
VERSION="24.04.3 LTS (Noble Numbat)"
VERSION_CODENAME=noble
ID=ubuntu
ID_LIKE=debian
EOF`

// containerdUnit is the unit of Ubuntu's package.
const containerdUnit = `[Unit]
Description=containerd container runtime
After=network.target

[Service]
ExecStart=/usr/bin/containerd
Type=notify
Delegate=yes
KillMode=process
Restart=always
LimitNOFILE=infinity
TasksMax=infinity
OOMScoreAdjust=-999

[Install]
WantedBy=multi-user.target
`

// containerdControl describes a package like Ubuntu's, which has runc in a separate package.
const containerdControl = `Package: containerd
Version: 2.2.6-0ubuntu1~24.04.1
Architecture: amd64
Maintainer: Lab <lab@example.com>
Section: admin
Priority: optional
Description: container runtime
 Made of the lab's containerd and runc.
`

// containerdPostinst does what debhelper's does: it enables and starts the service.
const containerdPostinst = "#!/bin/sh\nset -e\nsystemctl daemon-reload\nsystemctl enable --now containerd.service\n"

// ubuntuTarget serves a signed apt repository with containerd, and adds the target to the road's sealift.yaml.
func (r delivery) ubuntuTarget(t *testing.T) {
	t.Helper()
	dir := filepath.Join(r.dir(), "apt")
	root := filepath.Join(dir, "containerd")
	for name, text := range map[string]string{
		"DEBIAN/control": containerdControl, "DEBIAN/postinst": containerdPostinst, "lib/systemd/system/containerd.service": containerdUnit,
	} {
		place(t, filepath.Join(root, name), []byte(text))
	}
	shell(t, root, "chmod 755 DEBIAN/postinst")
	for name, from := range map[string]upstream.FileOf{
		"usr/bin/containerd":              {Component: upstream.KurlContainerd, Name: "containerd"},
		"usr/bin/containerd-shim-runc-v2": {Component: upstream.KurlContainerd, Name: "containerd-shim-runc-v2"},
		"usr/bin/ctr":                     {Component: upstream.KurlContainerd, Name: "ctr"},
		"usr/sbin/runc":                   {Component: upstream.KurlRunc, Name: "runc"},
	} {
		shell(t, root, "install -D "+component(t, from)+" "+name)
	}
	shell(t, dir, `mkdir -p dists/lab/main/binary-amd64 pool && dpkg-deb -Zgzip -z1 --root-owner-group --build containerd pool/containerd.deb
{ cat containerd/DEBIAN/control; echo "Filename: pool/containerd.deb"; echo "Size: $(stat -c %s pool/containerd.deb)"; echo "SHA256: $(sha256sum <pool/containerd.deb | cut -d' ' -f1)"; echo; } >dists/lab/main/binary-amd64/Packages
cd dists/lab && list=main/binary-amd64/Packages
printf 'Suite: lab\nDate: %s\nArchitectures: amd64\nComponents: main\nSHA256:\n %s %s %s\n' "$(date -uR)" "$(sha256sum <$list | cut -d' ' -f1)" "$(stat -c %s $list)" $list >Release
export GNUPGHOME=$(mktemp -d); trap 'gpgconf --kill all; rm -r "$GNUPGHOME"' EXIT
gpg --batch --quiet --passphrase '' --quick-generate-key lab@example.com ed25519 sign never
gpg --batch --quiet --clearsign --output InRelease Release && gpg --export >../../keyring.gpg`)
	server := httptest.NewServer(http.FileServer(http.Dir(dir)))
	t.Cleanup(server.Close)
	config, err := os.ReadFile(r.config)
	if err != nil {
		t.Fatal(err)
	}
	const keyring = "/usr/share/keyrings/debian-archive-keyring.gpg"
	place(t, r.config, fmt.Appendf(config, `targets:
  %s:
    sources:
    - {url: http://ftp.debian.org/debian, suites: [bookworm, bookworm-updates], components: [main], signedBy: %s}
    - {url: http://ftp.debian.org/debian-security, suites: [bookworm-security], components: [main], signedBy: %s}
    - {url: %s, suites: [lab], components: [main], signedBy: %s}
`, ubuntu, keyring, keyring, server.URL, filepath.Join(dir, "keyring.gpg")))
}

// place writes a file, and creates its folders.
func place(t *testing.T, name string, data []byte) {
	t.Helper()
	err := os.MkdirAll(filepath.Dir(name), 0o755)
	if err == nil {
		err = os.WriteFile(name, data, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// component returns a file of the lab's.
func component(t *testing.T, f upstream.FileOf) string {
	t.Helper()
	workshop := lab.Workshop(t)
	path, err := workshop.File(t.Context(), f)
	if err != nil {
		t.Fatal(err)
	}
	return path
}
