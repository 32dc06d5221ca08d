package pki

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/sealift/sealift/installer/cluster/kubeadm"
	"github.com/sealift/sealift/internal/regularfile"
)

// Who renews certificates automatically.
const (
	Sealift = "sealift" // the agent of the node, see package renewal
	Kubelet = "kubelet"
)

// renewBefore is how long before expiry Sealift renews a certificate automatically. It is a month more than warnBefore: a
// warning then means that renewals fail.
const renewBefore = 120 * 24 * time.Hour

// worthwhile is how much longer than the old certificate a new one must live. The end of its CA bounds both.
const worthwhile = 30 * 24 * time.Hour

// Schedule describes what Sealift renews on this node, and when.
type Schedule struct {
	Next  time.Time // of the first renewal; zero if Sealift renews nothing here
	Due   []string  // the files that are due
	Late  bool      // one of those is in the time of warnings, or has ended
	Ended bool      // one of those has ended
}

// ScheduleOf sums up the renewals of a node's certificates.
func ScheduleOf(entries []Entry, now time.Time) (s Schedule) {
	for _, e := range entries {
		if e.Renewal == nil {
			continue
		}
		if s.Next.IsZero() || e.Renewal.Before(s.Next) {
			s.Next = *e.Renewal
		}
		if !now.Before(*e.Renewal) {
			s.Due = append(s.Due, e.File)
			s.Late = s.Late || e.Due(now)
			s.Ended = s.Ended || e.Ended(now)
		}
	}
	return s
}

// schedule records who renews each certificate automatically, and when Sealift does.
func (h host) schedule(entries []Entry) error {
	rotates, err := h.kubeletRotates()
	if err != nil {
		return err
	}
	for i := range entries {
		e := &entries[i]
		switch {
		case e.cert == nil || e.Kind == CA:
		case isRotated(e.file) && (rotates || e.file == kubeletRotated):
			e.RenewedBy = Kubelet
		case e.file == kubeletServing || h.signs(entries, *e):
			at := e.End.Add(-renewBefore)
			e.RenewedBy, e.Renewal = Sealift, &at
		}
	}
	return nil
}

// isRotated reports whether a file has a certificate that the kubelet got from the cluster.
func isRotated(file string) bool {
	return strings.HasPrefix(filepath.Base(file), "kubelet-") && strings.HasSuffix(file, "-current.pem")
}

// kubeletRotates reports whether the kubelet renews its client certificate. kubeadm switches that on.
func (h host) kubeletRotates() (bool, error) {
	text, err := regularfile.ReadFile(h.Path(kubeadm.KubeletConfig))
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	config := struct{ RotateCertificates bool }{}
	if err := yaml.Unmarshal(text, &config); err != nil {
		return false, fmt.Errorf("%s: %w", kubeadm.KubeletConfig, err)
	}
	return config.RotateCertificates, nil
}

// signs reports whether this node has the key of a certificate's CA, and that CA lives long enough for another certificate.
func (h host) signs(entries []Entry, e Entry) bool {
	return slices.ContainsFunc(entries, func(ca Entry) bool {
		if ca.Kind != CA || e.cert.CheckSignatureFrom(ca.cert) != nil || ca.End.Sub(*e.End) < worthwhile {
			return false
		}
		_, err := os.Stat(h.Path(keyOf(ca.File)))
		return err == nil
	})
}

// keyOf is the file with the key of a certificate.
func keyOf(file string) string { return strings.TrimSuffix(file, ".crt") + ".key" }
