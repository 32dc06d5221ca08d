package pki

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sealift/sealift/installer/cluster/kubeadm"
)

func (h host) scheduleAt(t *testing.T, now time.Time) Schedule {
	t.Helper()
	entries, err := h.list(now)
	if err != nil {
		t.Fatal(err)
	}
	return ScheduleOf(entries, now)
}

func TestRenewalStartsFourMonthsBeforeExpiry(t *testing.T) {
	h, now := controlPlane(t), time.Now()
	s := h.scheduleAt(t, now)
	if days := s.Next.Sub(now).Hours() / 24; days < 243 || days > 246 || len(s.Due) > 0 {
		t.Errorf("the next renewal is in %.0f days: %+v", days, s)
	}
	for days, want := range map[int]Schedule{
		240: {}, 250: {Due: make([]string, 12)}, 280: {Due: make([]string, 12), Late: true}, 370: {Due: make([]string, 12), Late: true, Ended: true},
	} {
		got := h.scheduleAt(t, now.AddDate(0, 0, days))
		if len(got.Due) != len(want.Due) || got.Late != want.Late || got.Ended != want.Ended {
			t.Errorf("in %d days: %+v", days, got)
		}
	}
	h.renew(t, now.AddDate(0, 0, 250))
	if got := h.scheduleAt(t, now.AddDate(0, 0, 251)); len(got.Due) > 0 {
		t.Errorf("what was renewed is due again: %+v", got)
	}
}

func TestCertificateBoundByItsCAIsNotRenewed(t *testing.T) {
	h, now := controlPlane(t), time.Now()
	end := now.AddDate(9, 11, 20) // the CAs end ten days later
	h.renew(t, end.AddDate(-1, 0, 0))
	if s := h.scheduleAt(t, end); !s.Next.IsZero() {
		t.Errorf("%+v", s)
	}
	entries, err := h.list(end)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.End != nil && !e.Due(end) {
			t.Errorf("nobody is warned of %s", e.File)
		}
	}
}

func TestNodeRenewsOnlyWhatItCanSign(t *testing.T) {
	h, now := controlPlane(t), time.Now()
	if err := os.Remove(h.Path("/etc/kubernetes/pki/etcd/ca.key")); err != nil {
		t.Fatal(err)
	}
	for name, e := range h.must(t, now) {
		if under := strings.HasPrefix(name, "pki/etcd/") || name == "pki/apiserver-etcd-client.crt"; under && e.RenewedBy != "" {
			t.Errorf("%s: %+v", name, e)
		} else if !under && e.Kind == Leaf && (e.RenewedBy != Sealift || e.Renewal == nil) {
			t.Errorf("%s is not renewed: %+v", name, e)
		}
	}
}

// TestSealiftRenewsForNonRotatingKubelet uses a node whose owner has switched rotation off.
func TestSealiftRenewsForNonRotatingKubelet(t *testing.T) {
	h := controlPlane(t)
	h.rotatedClient(t)
	for config, want := range map[string]string{"rotateCertificates: true\n": Kubelet, "rotateCertificates: false\n": Sealift} {
		if err := os.WriteFile(h.Path(kubeadm.KubeletConfig), []byte(config), 0o600); err != nil {
			t.Fatal(err)
		}
		if e := h.must(t, time.Now())["kubelet.conf"]; e.RenewedBy != want {
			t.Errorf("%s: %+v", config, e)
		}
	}
	if err := os.WriteFile(h.Path(kubeadm.KubeletConfig), []byte("rotateCertificates: ["), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := h.list(time.Now()); err == nil || !strings.Contains(err.Error(), filepath.Base(kubeadm.KubeletConfig)) {
		t.Error(err)
	}
}
