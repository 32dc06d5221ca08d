// Package service runs the console of a node: its settings, its listener with TLS, and its unit of systemd.
//
// It changes nothing of the cluster. What it changes on the host is recorded like the changes of an install, so that a reset undoes it.
package service

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sealift/sealift/console/access"
	"github.com/sealift/sealift/console/audit"
	"github.com/sealift/sealift/console/command"
	"github.com/sealift/sealift/console/oidc"
	"github.com/sealift/sealift/console/upload"
	"github.com/sealift/sealift/installer/host/files"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/internal/diskspace"
	"github.com/sealift/sealift/internal/regularfile"
)

// Port is the port of the console, beside the API server's 6443, the balancer's 6444 and the share's 6445.
const Port = "6446"

// DefaultSnapshotStore is the store of snapshots that 'sealift snapshot' uses.
const DefaultSnapshotStore = "/var/backups/sealift"

// DefaultFleetKubeconfig is the kubeconfig of a hub that is the cluster of the console.
const DefaultFleetKubeconfig = "/etc/kubernetes/admin.conf"

// Settings say how the console of a node serves. The zero value of a field is its default.
type Settings struct {
	Listen string   `json:"listen,omitempty"` // address and port; all addresses and Port
	Hosts  []string `json:"hosts,omitempty"`  // names and addresses by which browsers may call it, besides those of the host
	// Certificate and PrivateKey are files in PEM. Without them, the cluster's CA signs a certificate.
	Certificate string `json:"certificate,omitempty"`
	PrivateKey  string `json:"privateKey,omitempty"`
	// OIDC says how people log in at an issuer of the cluster. Without a client ID, they use tokens only.
	OIDC oidc.Settings `json:"oidc,omitzero"`
	command.Settings
}

// Complete fills in the defaults.
func (s Settings) Complete() Settings {
	if s.Listen == "" {
		s.Listen = ":" + Port
	}
	if s.SnapshotStore == "" {
		s.SnapshotStore = DefaultSnapshotStore
	}
	if s.Fleet.Program != "" {
		s.Fleet.Kubeconfig = cmp.Or(s.Fleet.Kubeconfig, DefaultFleetKubeconfig)
	}
	return s
}

// Check finds settings with which the console cannot serve.
func (s Settings) Check() error {
	_, port, err := net.SplitHostPort(s.Complete().Listen)
	if n, portErr := strconv.ParseUint(port, 10, 16); err == nil && (portErr != nil || n == 0) {
		err = fmt.Errorf("%q is not a port from 1 to 65535", port)
	}
	if err != nil {
		return fmt.Errorf("--listen: %w; give an address and a port, such as 10.0.0.1:%s", err, Port)
	}
	for _, name := range s.Hosts {
		if strings.ContainsAny(name, "/@?# ") || strings.Contains(name, ":") && net.ParseIP(name) == nil {
			return fmt.Errorf("--host: %q is not a name or an address; leave out https:// and the port", name)
		}
	}
	if (s.Certificate == "") != (s.PrivateKey == "") {
		return errors.New("--certificate and --private-key belong together; give both, or none for a certificate of the cluster's CA")
	}
	if err := s.OIDC.Check(); err != nil {
		return err
	}
	paths := []struct{ flag, name string }{{"--certificate", s.Certificate}, {"--private-key", s.PrivateKey}, {"--snapshot-identity", s.SnapshotIdentity}, {"--bundles", s.Bundles},
		{"--fleet", s.Fleet.Program}, {"--fleet-kubeconfig", s.Fleet.Kubeconfig}}
	for _, key := range s.BundleKeys {
		paths = append(paths, struct{ flag, name string }{"--bundle-key", key})
	}
	for _, one := range paths {
		if one.name != "" && !filepath.IsAbs(one.name) {
			return fmt.Errorf("%s must be a path that begins with /, not %q", one.flag, one.name)
		}
	}
	if s.Fleet.Program == "" && s.Fleet != (command.Fleet{}) {
		return errors.New("--fleet-kubeconfig and --fleet-namespace need --fleet, the file of sealift-controller")
	}
	if strings.HasPrefix(s.Fleet.Namespace, "-") {
		return errors.New("--fleet-namespace must be the name of a namespace")
	}
	if strings.HasPrefix(s.SnapshotKey, "-") || strings.HasPrefix(s.SnapshotStore, "-") {
		return errors.New("the key and the store of snapshots must not begin with -")
	}
	return nil
}

// Home is the console's part of a node.
type Home struct {
	Root   string // install root
	LogDir string // folder of logs; "" is the default
}

func (h Home) file(name string) string { return filepath.Join(node.ConsoleDir(h.Root), name) }

// settingsName is the file with the settings.
const settingsName = "settings.json"

// Read reads the settings. The error is fs.ErrNotExist if the console is off.
func (h Home) Read() (s Settings, err error) {
	text, err := regularfile.ReadFile(h.file(settingsName))
	if err != nil {
		return s, err
	}
	if err := json.Unmarshal(text, &s); err != nil {
		return s, fmt.Errorf("%s is damaged: %w; run 'sealift-console on' again", h.file(settingsName), err)
	}
	return s, nil
}

// write keeps the settings.
func (h Home) write(s Settings) error {
	text, err := json.MarshalIndent(s, "", "  ") //nolint:gosec // PrivateKey is the name of a file
	if err != nil {
		return err
	}
	if err := files.MkdirAll(node.ConsoleDir(h.Root), 0o700); err != nil {
		return err
	}
	return files.WriteMode(h.file(settingsName), 0o600, append(text, '\n'))
}

// ErrOff means that the console of a node is off.
var ErrOff = errors.New("the console of this node is off; switch it on with 'sealift-console on'")

// CheckOn returns ErrOff if the console is off.
func (h Home) CheckOn() error {
	if _, err := h.Read(); errors.Is(err, fs.ErrNotExist) {
		return ErrOff
	} else if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%w; run the command as root", err)
	}
	return nil
}

// Tokens are the login tokens.
func (h Home) Tokens() access.Tokens { return access.Tokens{Dir: h.file("tokens"), Now: time.Now} }

// Sessions are the sessions.
func (h Home) Sessions() access.Sessions {
	return access.Sessions{Dir: h.file("sessions"), Now: time.Now}
}

// uploads says where uploaded bundles lie: on the disk of the install root, where an upgrade needs their content, too.
func (h Home) uploads() upload.Options {
	return upload.Options{Spool: h.file("uploads"), Bundles: h.file("bundles"), Space: func(folder string) (uint64, error) {
		space, err := diskspace.Of(folder)
		return space.Bytes, err
	}}
}

// backgroundDir is the folder of changes that outlive the console.
func (h Home) backgroundDir() string { return h.file("background") }

// The files of the audit in the folder of logs, which a reset keeps.
const (
	auditName   = "console-audit.jsonl"
	refusedName = "console-refused.jsonl"
)

// AuditFile is the file of the audit.
func (h Home) AuditFile() string { return filepath.Join(h.logs(), auditName) }

func (h Home) logs() string { return cmp.Or(h.LogDir, node.DefaultLogDir) }

// Audit is the log of logins and actions.
func (h Home) Audit() *audit.Log { return audit.New(h.AuditFile(), 0) }

func (h Home) refused() *audit.Log { return audit.New(filepath.Join(h.logs(), refusedName), 0) }

// Names are the names and addresses by which browsers may call the console.
func (s Settings) Names() (names []string, err error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, err
	}
	names = append(names, strings.ToLower(host), "localhost")
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return nil, err
	}
	for _, a := range addresses {
		if ip, ok := a.(*net.IPNet); ok && (ip.IP.IsGlobalUnicast() || ip.IP.IsLoopback()) {
			names = append(names, ip.IP.String())
		}
	}
	for _, name := range append(slices.Clone(s.Hosts), s.OIDC.Hostname()) {
		if name != "" {
			names = append(names, strings.ToLower(name))
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// Addresses are the URLs that a person can open.
func (s Settings) Addresses() ([]string, error) {
	host, port, err := net.SplitHostPort(s.Complete().Listen)
	if err != nil {
		return nil, err
	}
	if ip := net.ParseIP(host); host != "" && (ip == nil || !ip.IsUnspecified()) {
		return []string{"https://" + net.JoinHostPort(host, port) + "/"}, nil
	}
	name, err := os.Hostname()
	if err != nil {
		return nil, err
	}
	var urls []string
	for _, one := range append(slices.Clone(s.Hosts), name) {
		urls = append(urls, "https://"+net.JoinHostPort(one, port)+"/")
	}
	return urls, nil
}

// OpenID returns how people log in at an issuer. Unless the settings say otherwise, the issuer sends people back to the first address of the
// console.
func (s Settings) OpenID() (oidc.Settings, error) {
	o := s.OIDC
	if o.ClientID == "" || o.URL != "" {
		return o, nil
	}
	addresses, err := s.Addresses()
	if err != nil {
		return o, err
	}
	o.URL = addresses[0]
	return o, nil
}

// issuer returns what logs people in by an issuer; nil without a client ID.
func (s Settings) issuer() (*oidc.Client, error) {
	o, err := s.OpenID()
	if err != nil || o.ClientID == "" {
		return nil, err
	}
	return oidc.New(o, node.LoginFile, time.Now), nil
}
