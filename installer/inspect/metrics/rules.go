package metrics

import (
	"time"

	"github.com/prometheus/common/model"
	"sigs.k8s.io/yaml"
)

// rulesName is the name of the group of rules, and of the PrometheusRule.
const rulesName = "sealift"

// rules is the content of a rules file of Prometheus, and the spec of a PrometheusRule.
type rules struct {
	Groups []group `json:"groups"`
}

type group struct {
	Name  string `json:"name"`
	Rules []rule `json:"rules"`
}

type rule struct {
	Alert       string            `json:"alert"`
	Expr        string            `json:"expr"`
	For         string            `json:"for,omitempty"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

func allRules() rules {
	g := group{Name: rulesName}
	for _, a := range Alerts() {
		g.Rules = append(g.Rules, rule{a.Name, a.Expr, duration(a.For), map[string]string{"severity": string(a.Severity)},
			map[string]string{"summary": a.Summary, "command": a.Command}})
	}
	return rules{[]group{g}}
}

// duration writes a time as Prometheus reads it; "" for none.
func duration(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return model.Duration(d).String()
}

// RulesFile returns the alerts as a rules file of Prometheus.
func RulesFile() ([]byte, error) { return yaml.Marshal(allRules()) }

// PrometheusRule returns the alerts as an object of the Prometheus operator.
func PrometheusRule() ([]byte, error) {
	return yaml.Marshal(map[string]any{
		"apiVersion": "monitoring.coreos.com/v1", "kind": "PrometheusRule",
		"metadata": map[string]any{"name": rulesName, "labels": map[string]string{"app.kubernetes.io/name": rulesName}},
		"spec":     allRules(),
	})
}
