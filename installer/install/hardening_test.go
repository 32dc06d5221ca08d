package install

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sealift/sealift/spec"
)

func TestPlanNamesWhatHardeningSets(t *testing.T) {
	for name, row := range map[string]struct {
		options string
		joins   bool
		has     []string
		lacks   []string
	}{
		"nothing requested": {options: "", lacks: []string{"k"}},
		"compliance": {options: ", cisCompliance: true", has: []string{"kubelet podPidsLimit: 4096", "kube-apiserver --encryption-provider-config"},
			lacks: []string{"EventRateLimit", "protectKernelDefaults"}},
		"strict": {options: ", hardening: strict", has: []string{"--enable-admission-plugins=NodeRestriction,DenyServiceExternalIPs,EventRateLimit",
			"kubelet protectKernelDefaults: true", "etcd --cipher-suites=", "kube-apiserver --encryption-provider-config"}},
		"strict without encryption":   {options: ", hardening: strict, encryptSecrets: false", has: []string{"kubelet protectKernelDefaults: true"}, lacks: []string{"encryption"}},
		"strict on a host that joins": {options: ", hardening: strict", joins: true, has: []string{"kubelet protectKernelDefaults: true"}, lacks: []string{"kube-apiserver", "etcd"}},
	} {
		t.Run(name, func(t *testing.T) {
			i := asking(t, spec.APIVersion, "  kubernetes: {version: 1.37.2"+row.options+"}\n")
			if row.joins {
				i.options.Join = &Join{}
			}
			i.plan = i.makePlan()
			var lines []string
			for _, s := range i.Hardening() {
				lines = append(lines, fmt.Sprint(s))
			}
			text := strings.Join(lines, "\n")
			for _, want := range row.has {
				if !strings.Contains(text, want) {
					t.Errorf("no %q in\n%s", want, text)
				}
			}
			if slices.ContainsFunc(row.lacks, func(word string) bool { return strings.Contains(text, word) }) {
				t.Errorf("one of %q is in\n%s", row.lacks, text)
			}
		})
	}
}

func TestContradictionOfHardeningIsRefused(t *testing.T) {
	i := asking(t, spec.APIVersion, "  kubernetes: {version: 1.37.2, hardening: strict, cisCompliance: false}\n")
	if err := i.checkTogether(); err == nil || !strings.Contains(err.Error(), "kubernetes.cisCompliance, which is false") {
		t.Errorf("got %v", err)
	}
}
