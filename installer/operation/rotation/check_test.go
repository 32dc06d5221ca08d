package rotation

import (
	"strings"
	"testing"

	"github.com/sealift/sealift/installer/cluster/authority"
)

// TestOldCAStaysWhilePodsNeedIt: a person restarts them, or the command does.
func TestOldCAStaysWhilePodsNeedIt(t *testing.T) {
	t.Parallel()
	proxy, job := Holder{daemonSet, "kube-system", "kube-proxy"}, Holder{"Pod", "default", "report"}
	for _, row := range []struct {
		name    string
		o       Options
		stage   authority.Stage
		holders []Holder
		says    string // "" if it may continue
	}{
		{"the first part", Options{}, authority.Trust, []Holder{proxy}, ""},
		{"nothing from before", Options{Finish: true}, authority.Sign, nil, ""},
		{"a workload from before", Options{Finish: true}, authority.Sign, []Holder{proxy}, "DaemonSet kube-system/kube-proxy"},
		{"a workload that is restarted", Options{Finish: true, Restart: true}, authority.Sign, []Holder{proxy}, ""},
		{"a pod that nothing restarts", Options{Finish: true, Restart: true}, authority.Sign, []Holder{job, proxy}, "nothing restarts them: Pod default/report;"},
		{"some nodes have forgotten", Options{Finish: true}, authority.Forget, []Holder{job}, ""},
	} {
		r := &Rotation{options: row.o, state: authority.State{Stage: row.stage}, Holders: row.holders}
		if err := r.Check(); (err == nil) != (row.says == "") || err != nil && !strings.Contains(err.Error(), row.says) {
			t.Errorf("%s: %v", row.name, err)
		}
	}
}
